// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package start

import (
	"net/http"
	"testing"

	"github.com/sandbar-dev/sandbar/client/workspacetest"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/clitest"
)

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
		"an empty line is no":                    {"\r", cli.ExitFailure, 0},
		"another word is no":                     {"ok\r", cli.ExitFailure, 0},
		"an interrupt ends it at once":           {clitest.CtrlC, cli.ExitInterrupted, 0},
		"the end of the input is no":             {"\x04", cli.ExitFailure, 0},
		"a word without an end is not an answer": {"y" + clitest.CtrlC, cli.ExitInterrupted, 0},
	} {
		t.Run(name, func(t *testing.T) {
			k := &workspacetest.Workspace{}
			a := atStart(t, k).AtTerminal(t, "bind")
			clitest.Await(t, a.Screen, question)
			if changes := k.Changes(); len(changes) > 0 {
				t.Errorf("before the answer there is %v", changes)
			}
			a.Press(c.keys)
			a.Ends(c.code)
			if made := len(k.Changes()); made != c.made {
				t.Errorf("%d changes, want %d; the screen shows %q", made, c.made, a.Screen)
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
