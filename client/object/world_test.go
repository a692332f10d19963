// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/client/object/objecttest"
)

var noon = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)

func kindNamed(name, resource string, short ...string) objecttest.Kind {
	return objecttest.Kind{GVK: sandbarv1alpha1.GroupVersion.WithKind(name), Resource: resource, ShortNames: short}
}

// newWorkspace serves Sandboxes and SandboxSets, and a client of it.
func newWorkspace(t *testing.T) (*objecttest.Server, *Client) {
	t.Helper()
	sandboxes := kindNamed("Sandbox", "sandboxes", "sbx")
	sandboxes.Columns = []objecttest.Column{{
		TableColumnDefinition: metav1.TableColumnDefinition{Name: "State", Type: "string"},
		Cell: func(obj *unstructured.Unstructured) any {
			phase, _, _ := unstructured.NestedString(obj.Object, "status", "phase")
			return phase
		},
	}}
	server := objecttest.New(
		sandboxes, kindNamed("SandboxSet", "sandboxsets", "sbs"),
		objecttest.Kind{GVK: schema.GroupVersionKind{Group: "things.example.com", Version: "v1", Kind: "Thing"}, Resource: "things", ShortNames: []string{"th"}},
		objecttest.Kind{GVK: schema.GroupVersionKind{Group: "apis.kcp.io", Version: "v1alpha2", Kind: "APIBinding"}, Resource: "apibindings", Cluster: true},
	)
	server.Now = func() time.Time { return noon }
	return server, clientOf(t, server)
}

func clientOf(t *testing.T, server *objecttest.Server) *Client {
	t.Helper()
	at := httptest.NewServer(server)
	t.Cleanup(at.Close)
	c, err := New(&rest.Config{Host: at.URL + "/clusters/root:me"})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func sandbox(name string, labels map[string]any) map[string]any {
	metadata := map[string]any{"name": name}
	if labels != nil {
		metadata["labels"] = labels
	}
	return map[string]any{
		"apiVersion": "sandbar.dev/v1alpha1", "kind": "Sandbox", "metadata": metadata,
		"spec": map[string]any{}, "status": map[string]any{"phase": "Ready"},
	}
}

func sandboxesOf(t *testing.T, c *Client) Kind {
	t.Helper()
	k, err := c.Kind(t.Context(), "sandboxes")
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func names(items []Item) string {
	var all []string
	for _, item := range items {
		all = append(all, item.GetName())
	}
	return fmt.Sprint(all)
}
