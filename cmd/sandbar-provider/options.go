// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/sandbar-dev/sandbar/pkg/credential"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

var userAgent = "sandbar-provider/" + version

// maxVerbosity is the most that says no more than headers, without their credentials. At 8 client-go
// writes what it sends and receives: Secrets, and the provider's own next tokens.
const maxVerbosity = 7

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
		fmt.Sprintf("log verbosity: 0 state changes, 1 decisions, up to %d for what the libraries have to say", maxVerbosity))
}

func (c *connections) validate() error {
	if c.kcpKubeconfig == "" {
		return errors.New("--kcp-kubeconfig is required; sandbar-provider init --out DIR writes one")
	}
	if c.verbosity < 0 || c.verbosity > maxVerbosity {
		return fmt.Errorf("--verbosity %d must be 0 to %d: above that, client-go writes the bodies of its requests and answers, and so tokens and passwords", c.verbosity, maxVerbosity)
	}
	return nil
}

// clusters are the configurations with which a part of the provider reaches both.
type clusters struct {
	kcp, runtime *rest.Config
	// names are those of what the provider has on the runtime cluster. The credential says them: it is of the
	// provider's own namespace there.
	names placement.Names
	// credentials are the tokens that this process keeps from expiring.
	credentials credential.Collector
}

// configs loads both. There is no limit on this side of the connection: the servers have
// priority and fairness of their own, and a limit here would only delay the last requests. part names the
// part of the provider in logs and metrics.
func (c *connections) configs(part string, log *slog.Logger) (clusters, error) {
	var found clusters
	var err error
	found.kcp, err = found.load("--kcp-kubeconfig", part+"-kcp", c.kcpKubeconfig, log)
	if err != nil {
		return found, err
	}
	if c.runtimeKubeconfig != "" {
		if found.runtime, err = found.load("--runtime-kubeconfig", part+"-runtime", c.runtimeKubeconfig, log); err != nil {
			return found, err
		}
		found.names, err = namesIn(c.runtimeKubeconfig)
		return found, err
	}
	if found.runtime, err = rest.InClusterConfig(); err != nil {
		return found, fmt.Errorf("finding the runtime cluster (--runtime-kubeconfig): %w", err)
	}
	namespace, err := os.ReadFile(podNamespace)
	if err != nil {
		return found, fmt.Errorf("finding the provider's own namespace: %w", err)
	}
	found.names = placement.NamesIn(strings.TrimSpace(string(namespace)))
	found.runtime.QPS, found.runtime.UserAgent = -1, userAgent
	return found, nil
}

// podNamespace is where Kubernetes tells a pod its namespace, which is the provider's own.
const podNamespace = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// namesIn are the names that a kubeconfig for the runtime cluster says, as init writes it: its namespace is the
// provider's own. One without a namespace is of a provider without a name.
func namesIn(kubeconfig string) (placement.Names, error) {
	config, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		return placement.Names{}, fmt.Errorf("reading --runtime-kubeconfig: %w", err)
	}
	namespace, _, err := clientcmd.NewDefaultClientConfig(*config, nil).Namespace()
	if err != nil {
		return placement.Names{}, fmt.Errorf("reading the namespace in --runtime-kubeconfig: %w", err)
	}
	return placement.NamesIn(namespace), nil
}

func (c *clusters) load(flag, name, kubeconfig string, log *slog.Logger) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", flag, err)
	}
	config.QPS, config.UserAgent = -1, userAgent
	renewer, err := credential.New(name, kubeconfig, config, log)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	if renewer != nil {
		c.credentials = append(c.credentials, renewer)
	}
	return config, nil
}

// keep renews the credentials until ctx ends, also in a replica that does not lead, and serves when
// they expire with the metrics of a registry; nil for none.
func (c *clusters) keep(ctx context.Context, registry prometheus.Registerer) error {
	for _, renewer := range c.credentials {
		go renewer.Run(ctx)
	}
	if registry == nil {
		return nil
	}
	if err := registry.Register(c.credentials); err != nil {
		return fmt.Errorf("registering the metric of the credentials: %w", err)
	}
	return nil
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
