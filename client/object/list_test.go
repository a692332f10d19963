// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/sandbar-dev/sandbar/client/object/objecttest"
)

// fill makes a workspace have Sandboxes a-00, a-01, …; those with even numbers have the label even=yes.
func fill(server *objecttest.Server, n int) {
	for i := range n {
		server.Put("sandboxes", sandbox(fmt.Sprintf("a-%02d", i), map[string]any{"even": map[bool]any{true: "yes", false: "no"}[i%2 == 0]}))
	}
}

func TestAListIsReadPageByPage(t *testing.T) {
	for _, columns := range []bool{false, true} {
		t.Run(fmt.Sprintf("columns=%t", columns), func(t *testing.T) {
			server, c := newWorkspace(t)
			fill(server, 25)
			k := sandboxesOf(t, c)
			list, err := c.List(t.Context(), k, ListOptions{Namespace: "default", PageSize: 10, Columns: columns})
			if err != nil || len(list.Items) != 25 || list.Items[24].GetName() != "a-24" || list.ResourceVersion == "" || list.More {
				t.Fatalf("%d objects, %v", len(list.Items), err)
			}
			if columns != (len(list.Columns) == 2 && list.Items[24].Cells[1] == "Ready") {
				t.Errorf("columns %v, cells %v", list.Columns, list.Items[24].Cells)
			}
			if got := len(server.Requests()) - 1; got != 3 {
				t.Errorf("it took %d requests, want 3:\n%s", got, strings.Join(server.Requests(), "\n"))
			}
		})
	}
}

func TestAListIsSelectedByTheServer(t *testing.T) {
	server, c := newWorkspace(t)
	fill(server, 6)
	server.Put("sandboxes", map[string]any{"kind": "Sandbox", "metadata": map[string]any{"name": "else", "namespace": "other", "labels": map[string]any{"even": "yes"}}})
	k := sandboxesOf(t, c)
	for _, s := range []struct{ labels, fields, namespace, want string }{
		{"even=yes", "", "default", "[a-00 a-02 a-04]"},
		{"even in (yes,no)", "metadata.name!=a-01", "default", "[a-00 a-02 a-03 a-04 a-05]"},
		{"even=yes", "", "", "[a-00 a-02 a-04 else]"},
		{"even=perhaps", "", "default", "[]"},
	} {
		by, err := ParseSelector(s.labels)
		if err != nil {
			t.Fatal(err)
		}
		at, err := ParseFieldSelector(s.fields)
		if err != nil {
			t.Fatal(err)
		}
		list, err := c.List(t.Context(), k, ListOptions{Namespace: s.namespace, Labels: by, Fields: at, Columns: true})
		if err != nil || names(list.Items) != s.want {
			t.Errorf("%+v: %v %v", s, names(list.Items), err)
		}
	}
}

func TestALimitEndsAListAndSaysThatThereIsMore(t *testing.T) {
	server, c := newWorkspace(t)
	fill(server, 12)
	k := sandboxesOf(t, c)
	for _, l := range []struct {
		limit, page, want int
		more              bool
	}{{5, 2, 5, true}, {5, 0, 5, true}, {4, 2, 4, true}, {12, 5, 12, false}, {20, 5, 12, false}} {
		list, err := c.List(t.Context(), k, ListOptions{Namespace: "default", Limit: l.limit, PageSize: int64(l.page)})
		if err != nil || len(list.Items) != l.want || list.More != l.more {
			t.Errorf("%+v: %d objects, more: %t, %v", l, len(list.Items), list.More, err)
		}
	}
}

// The server forgets the version of the first page while the others are read: the list begins again, and has no
// object twice.
func TestAListWhoseVersionIsForgottenBeginsAgain(t *testing.T) {
	server, c := newWorkspace(t)
	fill(server, 25)
	k := sandboxesOf(t, c)
	server.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("continue") != "" {
			server.Put("sandboxes", sandbox("b", nil))
			server.Forget()
		}
		return false
	})
	list, err := c.List(t.Context(), k, ListOptions{Namespace: "default", PageSize: 10, Columns: true})
	if err != nil || len(list.Items) != 26 {
		t.Fatalf("%d objects, %v", len(list.Items), err)
	}
}

func TestAnObjectIsReadWithOrWithoutColumns(t *testing.T) {
	server, c := newWorkspace(t)
	fill(server, 1)
	k := sandboxesOf(t, c)
	for _, columns := range []bool{false, true} {
		list, err := c.Get(t.Context(), k, "default", "a-00", columns)
		if err != nil || names(list.Items) != "[a-00]" || (len(list.Columns) == 2) != columns {
			t.Errorf("%v %v", list, err)
		}
		if _, err := c.Get(t.Context(), k, "default", "none", columns); !apierrors.IsNotFound(err) || err.Error() != `reading sandboxes none: sandboxes.sandbar.dev "none" not found` {
			t.Errorf("%v", err)
		}
	}
}

// Aggregated API servers may print no tables.
func TestAServerWithoutTablesIsReadToo(t *testing.T) {
	server, c := newWorkspace(t)
	fill(server, 3)
	k := sandboxesOf(t, c)
	server.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		r.Header.Set("Accept", "application/json")
		return false
	})
	list, err := c.List(t.Context(), k, ListOptions{Namespace: "default", PageSize: 2, Columns: true})
	if err != nil || names(list.Items) != "[a-00 a-01 a-02]" || list.Columns != nil || list.ResourceVersion == "" {
		t.Errorf("%v %v", list, err)
	}
	if list, err = c.Get(t.Context(), k, "default", "a-01", true); err != nil || names(list.Items) != "[a-01]" {
		t.Errorf("%v %v", list, err)
	}
}

// A label for a hundred objects would take forty seconds with client-go's own limit.
func TestRequestsAreNotHeldBackHere(t *testing.T) {
	_, c := newWorkspace(t)
	if c.raw.GetRateLimiter() != nil {
		t.Error("requests are limited")
	}
	limited, err := New(&rest.Config{Host: "https://kcp.example.com", QPS: 5})
	if err != nil || limited.raw.GetRateLimiter() == nil {
		t.Errorf("the limit of the caller's configuration does not count: %v", err)
	}
}
