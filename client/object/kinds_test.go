// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/sandbar-dev/sandbar/client/object/objecttest"
)

// bind makes a workspace have an APIBinding to a provider, with a resource of another group.
func bind(server *objecttest.Server) {
	server.Put("apibindings", map[string]any{
		"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding",
		"metadata": map[string]any{"name": "sandbar.dev", "annotations": map[string]any{"extra.apis.kcp.io/dataplane-url": "https://sandboxes.example.com"}},
		"status": map[string]any{"boundResources": []any{
			map[string]any{"group": "sandbar.dev", "resource": "sandboxes"}, map[string]any{"group": "things.example.com", "resource": "things"},
		}},
	})
}

func TestAKindIsFoundByAnyOfItsNames(t *testing.T) {
	server, c := newWorkspace(t)
	bind(server)
	for word, want := range map[string]string{
		"sandboxes": "sandboxes", "sandbox": "sandboxes", "sbx": "sandboxes", "Sandbox": "sandboxes",
		"sandboxes.sandbar.dev": "sandboxes", "sandboxes.v1alpha1.sandbar.dev": "sandboxes", "sbx.sandbar.dev": "sandboxes",
		"sbs": "sandboxsets", "things.example.com": "", "things.things.example.com": "things", "th": "things", "thing": "things",
	} {
		k, err := c.Kind(t.Context(), word)
		if k.Resource.Resource != want || (want == "") != (err != nil) {
			t.Errorf("%s is %v (%v), want %s", word, k.Resource, err, want)
		}
	}
	k, err := c.Kind(t.Context(), "sbx")
	if err != nil || k.String() != "sandbox.sandbar.dev" || k.GVK().String() != "sandbar.dev/v1alpha1, Kind=Sandbox" || !k.Namespaced {
		t.Errorf("%+v %v", k, err)
	}
}

func TestAKindThatIsFoundCostsOneRequest(t *testing.T) {
	server, c := newWorkspace(t)
	if _, err := c.Kind(t.Context(), "sbx"); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(server.Requests(), "\n"); got != "GET /clusters/root:me/apis/sandbar.dev/v1alpha1" {
		t.Errorf("it asked\n%s", got)
	}
}

func TestAnUnknownKindIsToldWithThoseThereAre(t *testing.T) {
	server, c := newWorkspace(t)
	bind(server)
	_, err := c.Kind(t.Context(), "pods")
	var unknown *UnknownKindError
	if !errors.As(err, &unknown) || err.Error() != `this workspace has no kind "pods"; it has sandboxes (sbx), sandboxsets (sbs), things.things.example.com (th)` {
		t.Errorf("%T %v", err, err)
	}
	if _, err = c.Kind(t.Context(), "pods.sandbar.dev"); !errors.As(err, &unknown) {
		t.Errorf("%T %v", err, err)
	}
}

func TestAWorkspaceWithoutABindingIsToldAsSuch(t *testing.T) {
	c := clientOf(t, objecttest.New())
	for word, group := range map[string]string{"sandboxes": "sandbar.dev", "sandboxes.sandbar.dev": "sandbar.dev", "things.things.example.com": "things.example.com"} {
		_, err := c.Kind(t.Context(), word)
		var unbound *NotBoundError
		if !errors.As(err, &unbound) || unbound.Group != group {
			t.Errorf("%s: %T %v", word, err, err)
		}
	}
	if _, err := c.Kinds(t.Context()); err == nil || err.Error() != "this workspace has not bound sandbar.dev" {
		t.Errorf("%v", err)
	}
}

// A tenant may have no right to list APIBindings: the kinds of Sandbar's own group are there nevertheless.
func TestKindsNeedNoRightToListBindings(t *testing.T) {
	server, c := newWorkspace(t)
	bind(server)
	server.Intercept(func(rw http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "apibindings") {
			http.Error(rw, "no", http.StatusForbidden)
			return true
		}
		return false
	})
	kinds, err := c.Kinds(t.Context())
	if err != nil || kinds.String() != "sandboxes (sbx), sandboxsets (sbs)" {
		t.Errorf("%s %v", kinds, err)
	}
	server.Intercept(nil)
	if kinds, err = c.Kinds(t.Context()); err != nil || len(kinds) != 3 {
		t.Errorf("%s %v", kinds, err)
	}
}

func TestAWorkspaceThatRefusesDiscoveryIsNotOneWithoutABinding(t *testing.T) {
	server, c := newWorkspace(t)
	server.Intercept(func(rw http.ResponseWriter, _ *http.Request) bool {
		http.Error(rw, "no", http.StatusInternalServerError)
		return true
	})
	_, err := c.Kind(t.Context(), "sandboxes")
	var unbound *NotBoundError
	if err == nil || errors.As(err, &unbound) {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Kind(ctx, "sandboxes"); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// kcp's answer about a workspace that does not exist is a 404, as that of a workspace without the group is.
func TestAWorkspaceThatDoesNotExistIsToldAsSuch(t *testing.T) {
	server, c := newWorkspace(t)
	server.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"workspaces.tenancy.kcp.io \"root:me\" not found",` +
			`"reason":"NotFound","details":{"name":"root:me","group":"tenancy.kcp.io","kind":"workspaces"},"code":404}`))
		return true
	})
	for _, word := range []string{"sandboxes", "things.things.example.com"} {
		_, err := c.Kind(t.Context(), word)
		var missing *NoWorkspaceError
		if !errors.As(err, &missing) || missing.Workspace != "root:me" {
			t.Errorf("%s: %v", word, err)
		}
	}
}
