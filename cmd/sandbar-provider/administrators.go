// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sandbar-dev/sandbar/client"
)

// administrators reads the kubeconfigs of the administrators of both clusters, given by their paths, for a command that ends by
// itself. Neither credential follows a redirect to another server.
func administrators(kcpKubeconfig, runtimeKubeconfig string) (kcp, runtime *rest.Config, err error) {
	if kcp, err = clientcmd.BuildConfigFromFlags("", kcpKubeconfig); err != nil {
		return nil, nil, fmt.Errorf("reading --kcp-kubeconfig: %w", err)
	}
	if runtime, err = clientcmd.BuildConfigFromFlags("", runtimeKubeconfig); err != nil {
		return nil, nil, fmt.Errorf("reading --runtime-kubeconfig: %w", err)
	}
	kcp, runtime = client.WithoutRedirects(kcp), client.WithoutRedirects(runtime)
	kcp.UserAgent, runtime.UserAgent = userAgent, userAgent
	return kcp, runtime, nil
}
