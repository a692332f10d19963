// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/client-go/rest"

	"github.com/sandbar-dev/sandbar/client"
	"github.com/sandbar-dev/sandbar/client/session"
)

// A front end shows notes as it likes. This one prints them.
func Example() {
	dir, err := os.MkdirTemp("", "project")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	server := workspaceServer()
	defer server.Close()

	w := session.Workspace{
		Config:    &rest.Config{Host: server.URL, BearerToken: "the-persons-token"},
		Namespace: "default",
		Trust:     session.TrustStore{Path: filepath.Join(dir, "trust.json")},
		Confirm:   func(client.Offer) bool { return false }, // a program without a person to ask
		Notes: func(n session.Note) {
			switch n := n.(type) {
			case session.Created:
				fmt.Println(n.Name, "was created")
			case session.StateChanged:
				fmt.Println(n.Name, "is", n.Text)
			}
		},
	}
	if err := w.Ensure(context.Background(), "web", session.EnsureOptions{Dir: dir, Toolchain: "node"}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("web can be developed")
	// Output:
	// web was created
	// web is Pending
	// web can be developed
}

// workspaceServer is a workspace without bindings, in which a SandboxRunner is Ready when it is read for the second
// time.
func workspaceServer() *httptest.Server {
	reads, created := 0, false
	return httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		runner := func(status string) {
			_, _ = fmt.Fprintf(rw, `{"apiVersion":"sandbar.dev/v1alpha1","kind":"SandboxRunner","metadata":{"name":"web","namespace":"default"},"status":%s}`, status)
		}
		switch {
		case strings.HasSuffix(r.URL.Path, "/apibindings"):
			_, _ = fmt.Fprint(rw, `{"apiVersion":"apis.kcp.io/v1alpha2","kind":"APIBindingList","items":[]}`)
		case r.Method == http.MethodPost:
			created = true
			runner(`{}`)
		case !created:
			rw.WriteHeader(http.StatusNotFound)
			_, _ = fmt.Fprint(rw, `{"apiVersion":"v1","kind":"Status","status":"Failure","reason":"NotFound","code":404}`)
		default:
			if reads++; reads == 1 {
				runner(`{}`)
				return
			}
			runner(`{"phase":"Ready","dataPlane":{"url":"https://sandboxes.example.com/"},"conditions":[{"type":"Ready","status":"True","reason":"Ready","message":"","lastTransitionTime":"2026-01-02T12:00:00Z"}]}`)
		}
	}))
}
