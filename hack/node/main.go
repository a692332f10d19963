// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Command node is every Kubernetes part of the local stack in one binary:
// etcd, the control plane, the node agents, kubectl and a volume provisioner.
// The part is chosen by the name the binary is called by (a link named
// "kubectl" is kubectl), or by the first argument when it is called "node".
//
// One binary instead of eight keeps the build at one link step and the cache
// at a quarter of the size. It holds no logic of its own but the provisioner;
// flags and configuration come from hack/stack.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	kcm "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// commands maps a part's name to its command. etcd is not here: its main takes
// the argument vector instead of being a cobra command.
var commands = map[string]func() *cobra.Command{
	"kube-apiserver":          apiserver.NewAPIServerCommand,
	"kube-controller-manager": kcm.NewControllerManagerCommand,
	"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
	// A background context, not cli's: kubelet installs its own signal handler
	// and a second one panics.
	"kubelet":     func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) },
	"kube-proxy":  proxy.NewProxyCommand,
	"kubectl":     kubectl.NewDefaultKubectlCommand,
	"provisioner": newProvisionerCommand,
}

func main() {
	name := filepath.Base(os.Args[0])
	if name == "node" && len(os.Args) > 1 {
		name, os.Args = os.Args[1], os.Args[1:]
	}
	if name == "etcd" {
		etcdmain.Main(os.Args)
		return
	}
	newCommand, ok := commands[name]
	if !ok {
		fmt.Fprintf(os.Stderr, "node: %q is none of its parts\n", name)
		os.Exit(2)
	}
	os.Exit(cli.Run(newCommand()))
}
