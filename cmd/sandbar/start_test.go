// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/sandbar-dev/sandbar/client/workspacetest"
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
	w := &world{url: server.URL, bundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), kubeconfig: filepath.Join(dir, "kubeconfig"), trust: filepath.Join(dir, "trust.json")}
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

// compareGolden compares a text with a file of testdata.
func compareGolden(t *testing.T, file, got string) {
	t.Helper()
	name := filepath.Join("testdata", file)
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

// unauthorized is kcp's answer to a token that it does not know.
const unauthorized = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Unauthorized","message":"Unauthorized","code":401}`

// nasty is what a server could send to act on a terminal.
const nasty = "\x1b]52;c;cm0gLXJm\x07\u202e"

func TestBindShowsWhatItGrants(t *testing.T) {
	reviews := given("authorization.k8s.io", "subjectaccessreviews", "Accepted", "create")
	has := func(path string, claims ...any) *workspacetest.Workspace {
		k := &workspacetest.Workspace{}
		k.Has("sandbar.dev", path, "sandbar.dev", claims...)
		return k
	}
	refused := given("", "events", "Rejected", "create")
	refused["selector"] = map[string]any{"matchLabels": map[string]any{"a": "b"}}
	acting := &workspacetest.Workspace{}
	acting.Has("mine"+nasty, "root:sandbar", "sandbar.dev", reviews, given("", "events", "Accepted", "create"), given("", "pods", "Accepted", "get"+nasty))
	compareTranscripts(t, "bind.golden", []transcript{
		{"nothing is bound", "bind --yes", nil},
		{"without a terminal and without --yes", "bind", nil},
		{"a binding under another name", "bind root:sandbar:sandbar.dev --name mine --yes", nil},
		{"bound already", "bind", has("root:sandbar", reviews, given("", "events", "Accepted", "create"))},
		{"an older binding", "bind --yes", has("root:sandbar", reviews)},
		{"a claim that was rejected", "bind", has("root:sandbar", reviews, refused)},
		{"a binding that grants more", "bind", has("root:sandbar", reviews, given("", "events", "Accepted", "*"), given("", "secrets", "Accepted", "get", "list"))},
		{"a binding whose name acts on terminals", "bind", acting},
		{"a provider that asks for more", "bind --yes", &workspacetest.Workspace{Asks: []any{map[string]any{"resource": "secrets", "verbs": []any{"get" + nasty}}}}},
		{"an export that may not be bound", "bind root:private --yes", nil},
		{"a name that leads elsewhere", "bind --yes", has("root:other")},
		{"not a workspace", "bind https://kcp.example.com", nil},
		{"not a time", "bind --timeout 0s", nil},
		{"the provider does not come", "bind --yes --timeout 1s", &workspacetest.Workspace{Pending: -1, Conditions: []any{
			map[string]any{"type": "APIExportValid", "status": "False", "reason": "APIExportNotFound", "message": "no such export" + nasty},
		}}},
		{"kinds of the same names", "bind --yes", &workspacetest.Workspace{Pending: -1, Conditions: []any{
			map[string]any{"type": "InitialBindingCompleted", "status": "False", "reason": "NamingConflicts", "message": "sandboxes.sandbar.dev is a CRD" + nasty},
		}}},
		{"a token that has expired", "bind", answering(http.StatusUnauthorized, unauthorized)},
		{"no right to list bindings", "bind", &workspacetest.Workspace{Denied: map[string]bool{"GET /apis/apis.kcp.io/v1alpha2/apibindings": true}}},
	})
}

// Nothing happens before the question has an answer, and an interrupt is one.
func TestBindAsksAtATerminal(t *testing.T) {
	const question = "Grant this? [y/N] "
	for name, c := range map[string]struct {
		keys string
		code int
		made int
	}{
		"yes is yes":                             {"yes\r", 0, 1},
		"an empty line is no":                    {"\r", exitFailure, 0},
		"another word is no":                     {"ok\r", exitFailure, 0},
		"an interrupt ends it at once":           {ctrlC, exitInterrupted, 0},
		"the end of the input is no":             {"\x04", exitFailure, 0},
		"a word without an end is not an answer": {"y" + ctrlC, exitInterrupted, 0},
	} {
		t.Run(name, func(t *testing.T) {
			k := &workspacetest.Workspace{}
			a := atStart(t, k).atTerminal(t, "bind")
			await(t, a.screen, question)
			if changes := k.Changes(); len(changes) > 0 {
				t.Errorf("before the answer there is %v", changes)
			}
			a.press(c.keys)
			a.ends(c.code)
			if made := len(k.Changes()); made != c.made {
				t.Errorf("%d changes, want %d; the screen shows %q", made, c.made, a.screen)
			}
		})
	}
}

func TestWhoamiShowsTheUserAndTheWorkspace(t *testing.T) {
	compareTranscripts(t, "whoami.golden", []transcript{
		{"in a workspace", "whoami", nil},
		{"in a namespace", "whoami -n team", nil},
		{"for programs", "whoami -o json", nil},
		{"as nobody", "whoami", answering(http.StatusCreated, `{"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1","status":{"userInfo":{"username":"system:anonymous","groups":["system:unauthenticated"]}}}`)},
		{"as a user whose name acts on terminals", "whoami", answering(http.StatusCreated, `{"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1","status":{"userInfo":{"username":"alice\n\u001b[2J\u202e"}}}`)},
		{"without access to the workspace", "whoami", &workspacetest.Workspace{Denied: map[string]bool{"POST /apis/authentication.k8s.io/v1/selfsubjectreviews": true}}},
		{"with a credential that has expired", "whoami", answering(http.StatusUnauthorized, unauthorized)},
		{"a server that redirects", "whoami", &workspacetest.Workspace{Before: func(rw http.ResponseWriter, r *http.Request) bool {
			http.Redirect(rw, r, "http://elsewhere.example.com/", http.StatusTemporaryRedirect)
			return true
		}}},
		{"another format", "whoami -o yaml", nil},
		{"an argument", "whoami now", nil},
	})
}

// answering is a workspace with one answer to everything.
func answering(code int, body string) *workspacetest.Workspace {
	return &workspacetest.Workspace{Before: func(rw http.ResponseWriter, _ *http.Request) bool {
		rw.WriteHeader(code)
		fmt.Fprint(rw, body)
		return true
	}}
}
