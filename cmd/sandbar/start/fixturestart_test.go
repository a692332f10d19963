// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package start

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/sandbar-dev/sandbar/client/workspacetest"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/clitest"
)

// atStart is a world whose workspace is k, with a kubeconfig that has a token for it.
func atStart(t *testing.T, k *workspacetest.Workspace) *world {
	t.Helper()
	k.Token, k.Exports = clitest.Token, append(k.Exports, "root:sandbar:sandbar.dev")
	k.Kinds = map[string]string{"sandboxrunners": "SandboxRunner", "sandboxes": "Sandbox"}
	server := httptest.NewTLSServer(k)
	t.Cleanup(server.Close)
	cfg := clientcmdapi.NewConfig()
	cfg.Clusters["w"] = &clientcmdapi.Cluster{Server: server.URL + "/clusters/root:me", CertificateAuthorityData: clitest.CertificateOf(server)}
	cfg.AuthInfos["w"] = &clientcmdapi.AuthInfo{Token: clitest.Token}
	cfg.Contexts["w"] = &clientcmdapi.Context{Cluster: "w", AuthInfo: "w"}
	cfg.CurrentContext = "w"
	dir := t.TempDir()
	w := &world{&clitest.World{NewRoot: newRootCommand, URL: server.URL, Bundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), Kubeconfig: filepath.Join(dir, "kubeconfig"), Trust: filepath.Join(dir, "trust.json")}}
	if err := clientcmd.WriteToFile(*cfg, w.Kubeconfig); err != nil {
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
		code, stdout, stderr := w.Run(t, strings.Fields(c.args)...)
		text := strings.NewReplacer(w.Kubeconfig, "KUBECONFIG", filepath.Dir(w.Kubeconfig), "DIR").Replace(stdout + clitest.Untimed(stderr))
		text = clitest.WorkspaceHost.ReplaceAllString(text, "https://kcp.example.com")
		fmt.Fprintf(&golden, "# %s\n$ sandbar %s\n%s(exit code %d)\n\n", c.name, c.args, text, code)
	}
	clitest.CompareGolden(t, file, golden.String())
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
