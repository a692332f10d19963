// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

var userAgent = "sandbar-provider/" + version

// connections are the two clusters of the provider: its workspace in kcp and its runtime.
type connections struct {
	kcpKubeconfig     string
	runtimeKubeconfig string
	exportName        string
	verbosity         int
}

func (c *connections) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.kcpKubeconfig, "kcp-kubeconfig", "",
		"kubeconfig of the provider's identity in the provider workspace, as init writes it (required)")
	fs.StringVar(&c.runtimeKubeconfig, "runtime-kubeconfig", "",
		"kubeconfig of the runtime cluster; empty means the cluster that this process runs in")
	fs.StringVar(&c.exportName, "export-name", "sandbar.dev", "name of the APIExport in the provider workspace")
	fs.IntVarP(&c.verbosity, "verbosity", "v", 0,
		"log verbosity: 0 state changes, 1 decisions, up to 10 for everything that the libraries have to say")
}

func (c *connections) validate() error {
	if c.kcpKubeconfig == "" {
		return errors.New("--kcp-kubeconfig is required; sandbar-provider init --out DIR writes one")
	}
	return nil
}

// configs loads both. There is no limit on this side of the connection: the servers have
// priority and fairness of their own, and a limit here delays whoever comes last.
func (c *connections) configs() (kcp, runtime *rest.Config, err error) {
	kcp, err = clientcmd.BuildConfigFromFlags("", c.kcpKubeconfig)
	if err != nil {
		return nil, nil, fmt.Errorf("reading --kcp-kubeconfig: %w", err)
	}
	runtime, err = runtimeConfig(c.runtimeKubeconfig)
	if err != nil {
		return nil, nil, err
	}
	kcp.QPS, kcp.UserAgent = -1, userAgent
	return kcp, runtime, nil
}

func runtimeConfig(kubeconfig string) (config *rest.Config, err error) {
	if kubeconfig == "" {
		config, err = rest.InClusterConfig()
	} else {
		config, err = clientcmd.BuildConfigFromFlags("", kubeconfig)
	}
	if err != nil {
		return nil, fmt.Errorf("finding the runtime cluster (--runtime-kubeconfig): %w", err)
	}
	config.QPS, config.UserAgent = -1, userAgent
	return config, nil
}

// setUpLogging makes one JSON log on stderr of what we, controller-runtime and client-go say.
func (c *connections) setUpLogging() *slog.Logger {
	// logr's V(n) is slog's level -n.
	handler := slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: slog.Level(-c.verbosity)})
	log := logr.FromSlogHandler(handler)
	ctrl.SetLogger(log)
	klog.SetLogger(log)
	var level klog.Level
	if err := level.Set(strconv.Itoa(c.verbosity)); err != nil {
		panic(err) // an integer is always a level
	}
	return slog.New(handler)
}
