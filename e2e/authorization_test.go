// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"net/http"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
)

// verbsOfRunner are the verbs of a SandboxRunner with a method that each one takes.
var verbsOfRunner = []struct{ method, verb string }{
	{http.MethodGet, "/log"},
	{http.MethodPost, "/sync"},
	{http.MethodPost, "/restart"},
	{http.MethodGet, "/proxy/version"},
	{http.MethodPost, "/proxy/"},
	{http.MethodGet, "/status"},
}

// TestWhoMayDoWhat is promise 2: each caller gets what its rights in the tenant's workspace
// say, verb by verb, and a refusal tells nothing of what exists.
func TestWhoMayDoWhat(t *testing.T) {
	calm(t)
	tn := newTenant(t, "alice")
	box := tn.runner("web")
	box.waitReady()
	box.deploy(callAs(t, tn.token), "hello")
	other := newTenant(t, "bob")

	viewer := tn.role("viewer",
		rbacv1.PolicyRule{APIGroups: []string{"sandbar.dev"}, Resources: []string{"sandboxrunners", "sandboxrunners/log"}, Verbs: []string{"get"}})
	tn.admit(viewer, "carol")

	t.Run("a viewer reads the log and does nothing else", func(t *testing.T) {
		c := callAs(t, world.Stack.Token("carol"))
		c.want(http.StatusOK, http.MethodGet, box.base()+"/log", nil)
		for _, v := range verbsOfRunner[1:] {
			c.wantStatus(http.StatusForbidden, v.method, box.base()+v.verb, []byte("{}"))
		}
	})
	t.Run("a permitted caller learns that an instance or a verb does not exist", func(t *testing.T) {
		c := callAs(t, tn.token)
		c.wantStatus(http.StatusNotFound, http.MethodGet, strings.Replace(box.base(), "/web", "/nothing", 1)+"/log", nil)
		c.wantStatus(http.StatusNotFound, http.MethodGet, box.base()+"/teleport", nil)
		c.wantStatus(http.StatusMethodNotAllowed, http.MethodDelete, box.base()+"/log", nil)
	})
	for name, token := range map[string]string{
		"a second tenant's admin":        other.token,
		"somebody without any workspace": world.Stack.Token("dave"),
	} {
		t.Run(name+" learns nothing", func(t *testing.T) {
			c := callAs(t, token)
			nothing := *box
			nothing.name = "nothing"
			nowhere := *box
			nowhere.tn = &tenant{path: "root:e2e-does-not-exist"}
			for _, v := range verbsOfRunner {
				actual := c.wantStatus(http.StatusForbidden, v.method, box.base()+v.verb, []byte("{}"))
				missing := c.wantStatus(http.StatusForbidden, v.method, nothing.base()+v.verb, []byte("{}"))
				unknown := c.wantStatus(http.StatusForbidden, v.method, nowhere.base()+v.verb, []byte("{}"))
				a := strings.ReplaceAll(actual.Message, "web", "X")
				b := strings.ReplaceAll(missing.Message, "nothing", "X")
				if a != b {
					t.Errorf("%s tells an instance from none: %q and %q", v.verb, actual.Message, missing.Message)
				}
				if strings.ReplaceAll(a, tn.path, "W") != strings.ReplaceAll(strings.ReplaceAll(unknown.Message, "web", "X"), nowhere.tn.path, "W") {
					t.Errorf("%s tells a workspace from none: %q and %q", v.verb, actual.Message, unknown.Message)
				}
			}
			c.wantStatus(http.StatusForbidden, http.MethodGet, "/dataplane/clusters/"+tn.path+"/templates", nil)
		})
	}
	for name, token := range map[string]string{"no token": "", "a token that nobody issued": "not-a-token"} {
		t.Run("with "+name+" every verb answers 401", func(t *testing.T) {
			c := callAs(t, token)
			for _, v := range verbsOfRunner {
				c.wantStatus(http.StatusUnauthorized, v.method, box.base()+v.verb, []byte("{}"))
			}
		})
	}
	t.Run("X-Remote headers and query tokens make nobody somebody", func(t *testing.T) {
		c := callAs(t, "")
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, world.URL+box.base()+"/log?token="+tn.token+"&access_token="+tn.token, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Remote-User", "alice")
		req.Header.Set("X-Remote-Group", "system:masters")
		req.Header.Set("Impersonate-User", "alice")
		resp, err := c.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("code %d, want 401", resp.StatusCode)
		}
	})
}
