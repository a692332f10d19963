// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandbar-dev/sandbar/client/workspacetest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// atStart is a world whose workspace is k, with a kubeconfig that has a token for it.
func atStart(t *testing.T, k *workspacetest.Workspace) *world {
	t.Helper()
	k.Token, k.Exports = token, append(k.Exports, "root:sandbar:sandbar.dev")
	k.Kinds = map[string]string{"sandboxrunners": "SandboxRunner", "sandboxes": "Sandbox"}
	server := httptest.NewTLSServer(k)
	t.Cleanup(server.Close)
	cfg := clientcmdapi.NewConfig()
	cfg.Clusters["w"] = &clientcmdapi.Cluster{Server: server.URL + "/clusters/root:me", CertificateAuthorityData: certificateOf(server)}
	cfg.AuthInfos["w"] = &clientcmdapi.AuthInfo{Token: token}
	cfg.Contexts["w"] = &clientcmdapi.Context{Cluster: "w", AuthInfo: "w"}
	cfg.CurrentContext = "w"
	dir := t.TempDir()
	w := &world{newRoot: newRootCommand, url: server.URL, bundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), kubeconfig: filepath.Join(dir, "kubeconfig"), trust: filepath.Join(dir, "trust.json")}
	if err := clientcmd.WriteToFile(*cfg, w.kubeconfig); err != nil {
		t.Fatal(err)
	}
	return w
}

// given is a claim as an APIBinding has it.
func given(group, resource, state string, verbs ...any) map[string]any {
	return map[string]any{"group": group, "resource": resource, "verbs": verbs, "state": state, "selector": map[string]any{"matchAll": true}}
}

// transcript is a row of a golden file: a command line in a workspace.
type transcript struct {
	name, args string
	workspace  *workspacetest.Workspace
}

// compareTranscripts runs the rows and compares what a person reads with a file.
func compareTranscripts(t *testing.T, file string, rows []transcript) {
	t.Helper()
	var golden strings.Builder
	for _, c := range rows {
		k := c.workspace
		if k == nil {
			k = &workspacetest.Workspace{}
		}
		w := atStart(t, k)
		code, stdout, stderr := w.run(t, strings.Fields(c.args)...)
		text := strings.NewReplacer(w.kubeconfig, "KUBECONFIG", filepath.Dir(w.kubeconfig), "DIR").Replace(stdout + untimed(stderr))
		text = workspaceHost.ReplaceAllString(text, "https://kcp.example.com")
		fmt.Fprintf(&golden, "# %s\n$ sandbar %s\n%s(exit code %d)\n\n", c.name, c.args, text, code)
	}
	compareGolden(t, file, golden.String())
}

// unauthorized is kcp's answer to a token that it does not know.
const unauthorized = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Unauthorized","message":"Unauthorized","code":401}`

// nasty is what a server could send to act on a terminal.
const nasty = "\x1b]52;c;cm0gLXJm\x07\u202e"

// answering is a workspace with one answer to everything.
func answering(code int, body string) *workspacetest.Workspace {
	return &workspacetest.Workspace{Before: func(rw http.ResponseWriter, _ *http.Request) bool {
		rw.WriteHeader(code)
		fmt.Fprint(rw, body)
		return true
	}}
}

// offers has the workspace's binding name the data plane with a hash. There is no SandboxRunner "new".
func (w *world) offers(hash string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kcp = func(rw http.ResponseWriter, r *http.Request) bool {
		rw.Header().Set("Content-Type", "application/json")
		switch {
		case strings.HasSuffix(r.URL.Path, "/apibindings"):
			_ = json.NewEncoder(rw).Encode(map[string]any{"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBindingList", "items": []any{map[string]any{
				"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding",
				"metadata": map[string]any{"name": "sandbar.dev", "annotations": map[string]any{
					"extra.apis.kcp.io/dataplane-url": w.url, "extra.apis.kcp.io/dataplane-ca-sha256": hash,
				}},
				"status": map[string]any{"boundResources": []any{map[string]any{"group": "sandbar.dev", "resource": "sandboxrunners"}}},
			}}})
			return true
		case strings.HasSuffix(r.URL.Path, "/sandboxrunners/new"):
			return objects{"sandboxrunners": {}}.answer(rw, r)
		case r.Method == http.MethodGet:
			return false
		default:
			rw.WriteHeader(http.StatusForbidden)
			return true
		}
	}
}
