// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/sandbar-dev/sandbar/client/object/objecttest"
)

func manifest(spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "sandbar.dev/v1alpha1", "kind": "Sandbox", "metadata": map[string]any{"name": "web"}, "spec": spec,
	}}
}

func TestApplyReportsWhatItHasDone(t *testing.T) {
	_, c := newWorkspace(t)
	k := sandboxesOf(t, c)
	for _, a := range []struct {
		spec map[string]any
		dry  bool
		want Outcome
	}{
		{map[string]any{"a": "1"}, true, Created},
		{map[string]any{"a": "1"}, false, Created},
		{map[string]any{"a": "1"}, true, Unchanged},
		{map[string]any{"a": "1"}, false, Unchanged},
		{map[string]any{"a": "2"}, true, Configured},
		{map[string]any{"a": "2"}, false, Configured},
	} {
		obj, outcome, err := c.Apply(t.Context(), k, "default", manifest(a.spec), false, WriteOptions{DryRun: a.dry})
		if err != nil || outcome != a.want || obj.GetName() != "web" {
			t.Errorf("%+v: %s %v", a, outcome, err)
		}
	}
}

func TestApplyOfAManifestThatWasReadDoesNotCreateTheObjectAgain(t *testing.T) {
	server, c := newWorkspace(t)
	k := sandboxesOf(t, c)
	for _, field := range []string{"uid", "resourceVersion"} {
		obj := manifest(map[string]any{"a": "1"})
		obj.Object["metadata"].(map[string]any)[field] = "7"
		_, _, err := c.Apply(t.Context(), k, "default", obj, false, WriteOptions{})
		if err == nil || !strings.HasPrefix(err.Error(), "there is no Sandbox web, ") || !strings.Contains(err.Error(), "metadata."+field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	if got := server.Object("sandboxes", "default", "web"); got != nil {
		t.Errorf("there is %v", got)
	}
}

// The provider writes the status, and kcp its labels, while a person applies.
func TestApplyThatChangesNothingIsToldAsSuchWhileAControllerWrites(t *testing.T) {
	server, c := newWorkspace(t)
	k := sandboxesOf(t, c)
	if _, _, err := c.Apply(t.Context(), k, "default", manifest(map[string]any{"a": "1"}), false, WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	server.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPatch {
			obj := server.Object("sandboxes", "default", "web")
			obj.Object["status"] = map[string]any{"phase": "Ready"}
			server.Put("sandboxes", obj.Object)
		}
		return false
	})
	if _, outcome, err := c.Apply(t.Context(), k, "default", manifest(map[string]any{"a": "1"}), false, WriteOptions{}); err != nil || outcome != Unchanged {
		t.Errorf("%s %v", outcome, err)
	}
}

func TestApplyNamesTheProgramsWhoseFieldsItWouldChange(t *testing.T) {
	server, c := newWorkspace(t)
	k := sandboxesOf(t, c)
	refusal := apierrors.NewApplyConflict([]metav1.StatusCause{
		{Type: metav1.CauseTypeFieldManagerConflict, Message: `conflict with "kubectl-edit" using sandbar.dev/v1alpha1`, Field: ".spec.suspended"},
		{Type: metav1.CauseTypeFieldManagerConflict, Message: "words of a later server", Field: ".spec.x"},
	}, "Apply failed with 2 conflicts")
	server.Intercept(func(rw http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPatch || r.URL.Query().Get("force") == "true" {
			return false
		}
		objecttest.Refuse(rw, refusal)
		return true
	})
	_, _, err := c.Apply(t.Context(), k, "default", manifest(map[string]any{"suspended": true}), false, WriteOptions{})
	var conflict *FieldConflictError
	if !errors.As(err, &conflict) || !apierrors.IsConflict(err) || err.Error() != "web has fields that other programs have set to other values: spec.suspended (by kubectl-edit), spec.x (by another program)" {
		t.Errorf("%v", err)
	}
	if _, outcome, err := c.Apply(t.Context(), k, "default", manifest(nil), true, WriteOptions{}); err != nil || outcome != Created {
		t.Errorf("by force: %s %v", outcome, err)
	}
}

// An object that sandbar create made has its fields by the manager sandbar, but not by apply: the server takes that for
// another manager. Between the refusal and the second try nobody else's field may be taken over.
func TestApplyTakesOverWhatThisPackageWroteWithoutApply(t *testing.T) {
	for _, meanwhile := range []bool{false, true} {
		server, c := newWorkspace(t)
		k := sandboxesOf(t, c)
		server.Put("sandboxes", sandbox("web", nil))
		server.Intercept(func(rw http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodPatch || r.URL.Query().Get("force") == "true" {
				return false
			}
			if meanwhile {
				server.Put("sandboxes", sandbox("web", map[string]any{"theirs": "yes"}))
			}
			objecttest.Refuse(rw, apierrors.NewApplyConflict([]metav1.StatusCause{
				{Type: metav1.CauseTypeFieldManagerConflict, Message: `conflict with "sandbar-cli" using sandbar.dev/v1alpha1`, Field: ".spec.a"},
			}, "Apply failed with 1 conflict"))
			return true
		})
		_, outcome, err := c.Apply(t.Context(), k, "default", manifest(map[string]any{"a": "1"}), false, WriteOptions{})
		if meanwhile != apierrors.IsConflict(err) || !meanwhile && outcome != Configured {
			t.Errorf("changed meanwhile: %t; %s %v", meanwhile, outcome, err)
		}
	}
}

func TestApplyTakesTheVersionOfAManifestAsAPrecondition(t *testing.T) {
	server, c := newWorkspace(t)
	k := sandboxesOf(t, c)
	known := server.Put("sandboxes", sandbox("web", nil))
	server.Put("sandboxes", sandbox("web", map[string]any{"env": "prod"}))
	obj := manifest(map[string]any{"a": "1"})
	obj.SetResourceVersion(known.GetResourceVersion())
	_, _, err := c.Apply(t.Context(), k, "default", obj, true, WriteOptions{})
	var conflict *ConflictError
	if !errors.As(err, &conflict) || !strings.HasSuffix(err.Error(), ": metadata.labels.env") {
		t.Errorf("%v", err)
	}
}

func TestPatchChangesTheObjectThatWasRead(t *testing.T) {
	server, c := newWorkspace(t)
	k := sandboxesOf(t, c)
	known := server.Put("sandboxes", sandbox("web", nil))
	change := map[string]any{"spec": map[string]any{"a": "1"}}
	if _, err := c.Patch(t.Context(), k, known, change, WriteOptions{Version: known.GetResourceVersion()}); err != nil {
		t.Fatal(err)
	}
	// The caller has the version that it names: what has changed is known without the server's history.
	server.Forget()
	_, err := c.Patch(t.Context(), k, known, change, WriteOptions{Version: known.GetResourceVersion()})
	var conflict *ConflictError
	if !errors.As(err, &conflict) || !strings.HasSuffix(err.Error(), ": spec.a") {
		t.Errorf("%v", err)
	}
	if _, err := c.Patch(t.Context(), k, known, change, WriteOptions{}); err != nil {
		t.Errorf("without a version: %v", err)
	}
	server.Remove("sandboxes", "default", "web")
	if _, err := c.Patch(t.Context(), k, known, change, WriteOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("%v", err)
	}
	server.Put("sandboxes", sandbox("web", nil))
	if _, err := c.Patch(t.Context(), k, known, change, WriteOptions{}); !errors.As(err, &conflict) || !conflict.Gone {
		t.Errorf("of one that was created again: %v", err)
	}
	if _, ok := change["metadata"]; ok {
		t.Error("the caller's own map was changed")
	}
}

func TestAnObjectThatCannotBeReadIsNotDescribed(t *testing.T) {
	server, c := newWorkspace(t)
	k := sandboxesOf(t, c)
	server.Intercept(func(rw http.ResponseWriter, _ *http.Request) bool {
		objecttest.Refuse(rw, apierrors.NewForbidden(schema.GroupResource{Resource: "sandboxes"}, "web", errors.New("no right")))
		return true
	})
	if _, err := c.Describe(t.Context(), k, "default", "web"); !apierrors.IsForbidden(err) {
		t.Errorf("%v", err)
	}
}
