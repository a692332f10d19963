// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

func TestSuspendedIsSetOnceAndOnlyInTheVersionThatIsMeant(t *testing.T) {
	server, c := newWorkspace(t)
	server.Put("sandboxes", sandbox("web", nil))
	k := sandboxesOf(t, c)
	for _, row := range []struct {
		suspended, changed bool
	}{{true, true}, {true, false}, {false, true}, {false, false}} {
		obj, changed, err := c.SetSuspended(t.Context(), k, "default", "web", row.suspended, "")
		if err != nil || changed != row.changed || isSuspended(obj) != row.suspended || isSuspended(server.Object("sandboxes", "default", "web")) != row.suspended {
			t.Errorf("%+v: %v, %v, %v", row, obj, changed, err)
		}
	}
	var stale *ConflictError
	before := server.Object("sandboxes", "default", "web").GetResourceVersion()
	for _, suspended := range []bool{true, false} { // also where nothing is to be changed
		if _, changed, err := c.SetSuspended(t.Context(), k, "default", "web", suspended, "7"); !errors.As(err, &stale) || stale.Version != "7" || changed {
			t.Errorf("suspended=%v of a version that it does not have: %v, %v", suspended, changed, err)
		}
	}
	if now := server.Object("sandboxes", "default", "web").GetResourceVersion(); now != before {
		t.Errorf("the version is %s, was %s", now, before)
	}
	if _, changed, err := c.SetSuspended(t.Context(), k, "default", "web", true, before); err != nil || !changed {
		t.Errorf("of the version that it has: %v, %v", changed, err)
	}
	if _, _, err := c.SetSuspended(t.Context(), k, "default", "none", true, ""); !apierrors.IsNotFound(err) {
		t.Errorf("one that is not there: %v", err)
	}
}

// An API server drops a field that a kind does not have, and answers with success.
func TestAKindWithoutTheFieldCannotBeSuspended(t *testing.T) {
	server, c := newWorkspace(t)
	server.Put("sandboxsets", map[string]any{"apiVersion": "sandbar.dev/v1alpha1", "kind": "SandboxSet", "metadata": map[string]any{"name": "warm"}, "spec": map[string]any{}})
	k, err := c.Kind(t.Context(), "sandboxset")
	if err != nil {
		t.Fatal(err)
	}
	server.Intercept(func(rw http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPatch {
			r.Method = http.MethodGet // and so nothing is changed
		}
		return false
	})
	var not *NotSuspendableError
	if _, changed, err := c.SetSuspended(t.Context(), k, "default", "warm", true, ""); !errors.As(err, &not) || changed || err.Error() != "a SandboxSet cannot be suspended: it has no field spec.suspended" {
		t.Errorf("%v, %v", changed, err)
	}
}

func TestASuspensionIsReachedInThePresentGeneration(t *testing.T) {
	condition := func(kind, status, reason string) any {
		return map[string]any{"type": kind, "status": status, "reason": reason}
	}
	for name, c := range map[string]struct {
		wanted     Suspension
		observed   int64
		phase      string
		conditions []any
		reached    bool
		err        string
	}{
		"suspended":                     {Suspended, 2, "Suspended", nil, true, ""},
		"suspended before the change":   {Suspended, 1, "Suspended", nil, false, ""},
		"on its way":                    {Suspended, 2, "Suspending", nil, false, ""},
		"asleep is not suspended":       {Suspended, 2, "Sleeping", nil, false, ""},
		"Ready":                         {Awake, 2, "Ready", []any{condition("Ready", "True", "Ready")}, true, ""},
		"Ready before the change":       {Awake, 1, "Ready", []any{condition("Ready", "True", "Ready")}, false, ""},
		"starting":                      {Awake, 2, "Resuming", []any{condition("Ready", "False", "Starting")}, false, ""},
		"asleep until the next request": {Awake, 2, "Sleeping", []any{condition("Ready", "False", "Sleeping")}, true, ""},
		"with what it had before":       {Awake, 2, "Degraded", []any{condition("Ready", "False", "NotComposed")}, true, ""},
		"refused, and nothing serves":   {Awake, 2, "Failed", []any{condition("Ready", "False", "NotComposed")}, false, ""},
		"without a status":              {Awake, 2, "", nil, false, ""},
		"past its shutdown time": {
			Awake, 2, "Suspended", []any{condition("Suspended", "True", string(sandbarv1alpha1.SuspendedExpired))}, false, "the shutdown time of web has passed: set a later",
		},
	} {
		t.Run(name, func(t *testing.T) {
			obj := &unstructured.Unstructured{Object: map[string]any{
				"metadata": map[string]any{"name": "web", "generation": int64(2)},
				"status":   map[string]any{"phase": c.phase, "observedGeneration": c.observed, "conditions": c.conditions},
			}}
			reached, err := c.wanted.Reached(obj)
			if reached != c.reached || (err != nil) != (c.err != "") || !strings.HasPrefix(text(err), c.err) {
				t.Errorf("%v, %v, want %v, %q", reached, err, c.reached, c.err)
			}
		})
	}
}
