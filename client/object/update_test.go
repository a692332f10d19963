// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestUpdateReplacesAnObjectInTheVersionThatWasRead(t *testing.T) {
	server, c := newWorkspace(t)
	k := sandboxesOf(t, c)
	known := server.Put("sandboxes", sandbox("web", map[string]any{"env": "test", "tier": "web"}))
	change := known.DeepCopy()
	change.SetLabels(map[string]string{"env": "prod"})
	delete(change.Object, "status") // a file may leave it out
	dry, outcome, err := c.Update(t.Context(), k, "default", change, false, WriteOptions{DryRun: true})
	if err != nil || outcome != Updated || dry.GetLabels()["env"] != "prod" || server.Object("sandboxes", "default", "web").GetLabels()["env"] != "test" {
		t.Fatalf("a dry run: %s %v", outcome, err)
	}
	if _, outcome, err := c.Update(t.Context(), k, "default", change, false, WriteOptions{}); err != nil || outcome != Updated {
		t.Fatalf("%s %v", outcome, err)
	}
	now := server.Object("sandboxes", "default", "web")
	if phase, _, _ := unstructured.NestedString(now.Object, "status", "phase"); len(now.GetLabels()) != 1 || now.GetLabels()["env"] != "prod" || phase != "Ready" {
		t.Errorf("%v", now.Object)
	}
	if _, outcome, err := c.Update(t.Context(), k, "default", now, false, WriteOptions{}); err != nil || outcome != Unchanged {
		t.Errorf("the same again: %s %v", outcome, err)
	}
	if last := server.Requests()[len(server.Requests())-1]; !strings.Contains(last, "fieldValidation=Strict") || !strings.Contains(last, "fieldManager="+FieldManager) {
		t.Errorf("%s", last)
	}
	if _, _, err := c.Update(t.Context(), k, "default", &unstructured.Unstructured{Object: sandbox("none", nil)}, true, WriteOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("%v", err)
	}
}

func TestUpdateOfAStaleVersionIsRefusedWithWhatChanged(t *testing.T) {
	server, c := newWorkspace(t)
	k := sandboxesOf(t, c)
	known := server.Put("sandboxes", sandbox("web", map[string]any{"env": "test"}))
	edit(server, "web", "kubectl-edit", 12*time.Minute, func(o map[string]any) {
		o["spec"] = map[string]any{"displayName": "Theirs"}
	}, `{"f:spec":{"f:displayName":{}}}`)
	ours := known.DeepCopy()
	ours.Object["spec"] = map[string]any{"displayName": "Ours"}
	for name, version := range map[string]string{"in the object": "", "in the options": known.GetResourceVersion()} {
		change := ours.DeepCopy()
		if version != "" {
			change.SetResourceVersion("")
			change.SetUID("") // which a file need not have
		}
		_, _, err := c.Update(t.Context(), k, "default", change, false, WriteOptions{Version: version})
		var stale *ConflictError
		if !errors.As(err, &stale) || stale.Gone || stale.Before == nil || !strings.HasSuffix(err.Error(), ": spec.displayName (by kubectl-edit, 12m ago)") {
			t.Fatalf("%s: %v", name, err)
		}
		if got, _, _ := unstructured.NestedString(stale.Yours.Object, "spec", "displayName"); got != "Ours" || stale.Yours.Object["status"] == nil {
			t.Errorf("%s: yours is %v", name, stale.Yours.Object)
		}
	}
	if _, outcome, err := c.Update(t.Context(), k, "default", ours, true, WriteOptions{}); err != nil || outcome != Updated {
		t.Errorf("%s %v", outcome, err)
	}
	if got, _, _ := unstructured.NestedString(server.Object("sandboxes", "default", "web").Object, "spec", "displayName"); got != "Ours" {
		t.Errorf("%s", got)
	}
}

func TestUpdateRefusesAnotherObjectOfTheName(t *testing.T) {
	server, c := newWorkspace(t)
	k := sandboxesOf(t, c)
	known := server.Put("sandboxes", sandbox("web", nil))
	server.Remove("sandboxes", "default", "web")
	server.Put("sandboxes", sandbox("web", nil))
	_, _, err := c.Update(t.Context(), k, "default", known, false, WriteOptions{})
	var stale *ConflictError
	if !errors.As(err, &stale) || !stale.Gone || text(err) != "the Sandbox web was deleted and created again since you read it" {
		t.Errorf("%v", err)
	}
}

// With force an object that is written again and again is replaced as soon as there is a moment for it.
func TestUpdateWithForceTriesAgainWhenSomebodyWritesInBetween(t *testing.T) {
	server, c := newWorkspace(t)
	k := sandboxesOf(t, c)
	known := server.Put("sandboxes", sandbox("web", nil))
	writes := 0
	server.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPut && writes < 3 {
			writes++
			server.Put("sandboxes", sandbox("web", map[string]any{"n": strings.Repeat("x", writes)}))
		}
		return false
	})
	ours := known.DeepCopy()
	ours.SetLabels(map[string]string{"env": "prod"})
	if _, _, err := c.Update(t.Context(), k, "default", ours, true, WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := server.Object("sandboxes", "default", "web").GetLabels(); writes != 3 || len(got) != 1 || got["env"] != "prod" {
		t.Errorf("%d %v", writes, got)
	}
}
