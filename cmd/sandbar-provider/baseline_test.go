// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// With --all and a name, or with neither, it is not certain what was meant, and rights are at stake.
func TestGrantNamesTheFlagThatIsMissing(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(http.StatusTeapot)
	}))
	t.Cleanup(server.Close)
	kubeconfig := kubeconfigOf(t, server.URL)
	clusters := []string{"--kcp-kubeconfig", kubeconfig, "--runtime-kubeconfig", kubeconfig}
	run := func(args ...string) error {
		root := newRootCommand()
		root.SetArgs(append([]string{"baseline", "grant"}, args...))
		root.SetOut(io.Discard)
		root.SetErr(io.Discard)
		return root.ExecuteContext(t.Context())
	}
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"neither names nor all":          {clusters, "name the Baselines, or give --all"},
		"both":                           {append([]string{"shop", "--all"}, clusters...), "name the Baselines, or give --all"},
		"no clusters":                    {[]string{"shop"}, "--kcp-kubeconfig and --runtime-kubeconfig are required"},
		"a kubeconfig that is not there": {[]string{"shop", "--kcp-kubeconfig", "/not/there", "--runtime-kubeconfig", kubeconfig}, "reading --kcp-kubeconfig"},
		"a workspace that is none":       {append([]string{"shop", "--workspace", "acme"}, clusters...), "is not a path such as root:sandbar"},
		"a runtime name that is none":    {append([]string{"shop", "--runtime-name", "Blue"}, clusters...), "the provider's name on the runtime cluster"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := run(c.args...); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("err = %v, want one with %q", err, c.want)
			}
		})
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("the servers were asked %d times", n)
	}
	// The same flags without a mistake do ask: the table could not fail otherwise.
	if err := run(append([]string{"--all"}, clusters...)...); err == nil || asked.Load() == 0 {
		t.Errorf("err = %v after %d requests, want those of a server that is none", err, asked.Load())
	}
}
