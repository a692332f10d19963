// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"k8s.io/client-go/rest"

	"github.com/sandbar-dev/sandbar/client"
)

// The workspace's configuration is that of any Kubernetes client; the data plane has to be named,
// since it gets the caller's token.
func Example() {
	workspace, dataPlane, stop := servers()
	defer stop()

	c, err := client.New(workspace, dataPlane)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	ctx := context.Background()
	instance, err := c.Instance(ctx, client.SandboxRunners, "default", "web")
	if err != nil {
		fmt.Println(err)
		return
	}
	for event, err := range instance.Logs(ctx, client.LogOptions{}) {
		switch {
		case err != nil:
			fmt.Println(err)
		case event.Type == client.LogOutput:
			fmt.Printf("%s", event.Record.Data)
		case event.Type == client.LogDisconnected:
			fmt.Println("trying again in", event.Retry)
		}
	}
	// Output:
	// listening on 3000
	// GET /
}

// servers are a workspace with one instance and its data plane.
func servers() (*rest.Config, client.DataPlane, func()) {
	log := &runnerLog{id: "a", records: linesOf("listening on 3000\n", "GET /\n")}
	plane := httptest.NewTLSServer(log)
	workspace := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"apiVersion":"sandbar.dev/v1alpha1","kind":"SandboxRunner","metadata":{"name":"web"},
			"status":{"dataPlane":{"url":"%s/dataplane/clusters/c1/namespaces/default/sandboxrunners/web"}}}`, plane.URL)
	}))
	config := &rest.Config{Host: workspace.URL, BearerToken: token, TLSClientConfig: rest.TLSClientConfig{CAData: certificateOf(workspace)}}
	return config, client.DataPlane{URL: plane.URL, CABundle: certificateOf(plane)}, func() {
		workspace.Close()
		plane.Close()
	}
}
