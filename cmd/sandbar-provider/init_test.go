// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/sandbar-dev/sandbar/install"
)

// kubeconfigOf writes a kubeconfig for a server.
func kubeconfigOf(t *testing.T, server string) string {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["x"] = &clientcmdapi.Cluster{Server: server}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "x"}
	config.CurrentContext = "x"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// What is wrong with the flags is found before either server is asked anything.
func TestInitNamesTheFlagThatCannotWorkAndTheRemedy(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(http.StatusTeapot)
	}))
	t.Cleanup(server.Close)
	kubeconfig := kubeconfigOf(t, server.URL)
	clusters := []string{"--kcp-kubeconfig", kubeconfig, "--runtime-kubeconfig", kubeconfig}
	url := []string{"--dataplane-url", "https://dp.test"}
	for name, tc := range map[string]struct {
		args []string
		want []string
	}{
		"no clusters":                      {url, []string{"--kcp-kubeconfig and --runtime-kubeconfig are required"}},
		"a kubeconfig that is not there":   {append([]string{"--kcp-kubeconfig", "/not/there", "--runtime-kubeconfig", kubeconfig}, url...), []string{"--kcp-kubeconfig", "/not/there"}},
		"no URL":                           {clusters, []string{"--dataplane-url is required"}},
		"a URL that shows tokens":          {append([]string{"--dataplane-url", "http://dp.test"}, clusters...), []string{"--dataplane-url: must be https://HOST"}},
		"a URL with a password":            {append([]string{"--dataplane-url", "https://u:s3cret@dp.test"}, clusters...), []string{"--dataplane-url: must be without a user", "give https://dp.test"}},
		"a bundle that is not there":       {append([]string{"--dataplane-ca-file", "/not/there"}, append(url, clusters...)...), []string{"--dataplane-ca-file", "/not/there"}},
		"a preview domain that is none":    {append([]string{"--preview-domain", "https://preview.test"}, append(url, clusters...)...), []string{`--preview-domain: "https://preview.test" is not a domain`}},
		"a preview domain above the URL":   {append([]string{"--preview-domain", "test"}, append(url, clusters...)...), []string{"--preview-domain: must not be above dp.test"}},
		"an image without a key":           {append([]string{"--image", "node:22"}, append(url, clusters...)...), []string{`"--image"`, "must be formatted as key=value"}},
		"an image with a key of two words": {append([]string{"--image", "my-node=node:22"}, append(url, clusters...)...), []string{`--image: the key "my-node" must`, "rename it"}},
		"a key without an image":           {append([]string{"--image", "node="}, append(url, clusters...)...), []string{`--image: the key "node"`, "give one such as"}},
		"a base domain without a gateway":  {append([]string{"--base-domain", "preview.test"}, append(url, clusters...)...), []string{"--base-domain and --gateway are needed together: give both, or neither"}},
		"a gateway without a base domain":  {append([]string{"--gateway", "gw/public"}, append(url, clusters...)...), []string{"--base-domain and --gateway are needed together: give both, or neither"}},
		"a gateway without a namespace":    {append([]string{"--base-domain", "preview.test", "--gateway", "public"}, append(url, clusters...)...), []string{`--gateway "public" must be the NAMESPACE/NAME`}},
	} {
		t.Run(name, func(t *testing.T) {
			root := newRootCommand()
			root.SetArgs(append([]string{"init"}, tc.args...))
			root.SetOut(io.Discard)
			root.SetErr(io.Discard)
			err := root.ExecuteContext(t.Context())
			for _, want := range tc.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("err = %v, want one with %q", err, want)
				}
			}
			if err != nil && strings.Contains(err.Error(), "s3cret") {
				t.Errorf("the error repeats a password: %v", err)
			}
		})
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("the servers were asked %d times", n)
	}
	// The same flags without a mistake do ask: the table could not fail otherwise.
	root := newRootCommand()
	root.SetArgs(append([]string{"init"}, append(url, clusters...)...))
	root.SetOut(io.Discard)
	root.SetErr(os.Stderr)
	if err := root.ExecuteContext(t.Context()); err == nil || asked.Load() == 0 {
		t.Errorf("err = %v after %d requests, want those of a server that is none", err, asked.Load())
	}
}

func TestInitTellsWhatIsLeftToDo(t *testing.T) {
	for name, tc := range map[string]struct {
		templates    []string
		want, absent string
	}{
		"the controllers make Templates Ready":         {templates: []string{"redis"}, want: "Templates become Ready when"},
		"without Templates nothing is to become Ready": {absent: "Templates become Ready"},
		"tenants find the APIExport":                   {want: "bind the APIExport things.dev of root:things"},
		"tenants find ready-made roles":                {want: "sandbar-provider roles | kubectl apply -f -"},
		"the roles are named":                          {want: "(operator, previewer, viewer)"},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			printNext(&out, install.Options{Templates: tc.templates, ExportName: "things.dev", Workspace: "root:things"})
			if !strings.Contains(out.String(), tc.want) || tc.absent != "" && strings.Contains(out.String(), tc.absent) {
				t.Errorf("printed %q; want %q and not %q", out.String(), tc.want, tc.absent)
			}
		})
	}
}
