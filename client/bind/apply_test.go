// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package bind_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/sandbar-dev/sandbar/client"
	"github.com/sandbar-dev/sandbar/client/bind"
	"github.com/sandbar-dev/sandbar/client/workspacetest"
)

// claimsOf are the claims of a stored binding, as JSON.
func claimsOf(t *testing.T, binding map[string]any) string {
	t.Helper()
	spec, _ := binding["spec"].(map[string]any)
	text, err := json.Marshal(spec["permissionClaims"])
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func asJSON(t *testing.T, claims ...any) string {
	t.Helper()
	text, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// look is bind.Look of a workspace in which that succeeds.
func look(t *testing.T, w *workspacetest.Workspace) *bind.Plan {
	t.Helper()
	plan, err := bind.Look(t.Context(), serve(t, w), export, "")
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// The export of a provider may ask for anything: what is granted does not come from it.
func TestABindingAcceptsTheClaimsOfThePlanAlone(t *testing.T) {
	w := &workspacetest.Workspace{Pending: 2, Asks: []any{
		map[string]any{"resource": "secrets", "verbs": []any{"get", "list"}}, map[string]any{"resource": "events", "verbs": []any{"create", "get"}},
	}}
	plan := look(t, w)
	if err := plan.Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, want := claimsOf(t, w.Binding("sandbar.dev")), asJSON(t, reviews("Accepted"), events("Accepted")); got != want {
		t.Errorf("the binding accepts\n%s, want\n%s", got, want)
	}
	bound, err := plan.Wait(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	var kinds, unmet []string
	for _, k := range bound.Kinds {
		kinds = append(kinds, k.Kind+" "+k.Resource.String())
	}
	for _, c := range bound.Unmet {
		unmet = append(unmet, c.String())
	}
	wantKinds := []string{"Sandbox sandbar.dev/v1alpha1, Resource=sandboxes", "SandboxRunner sandbar.dev/v1alpha1, Resource=sandboxrunners"}
	if diff := cmp.Diff(wantKinds, kinds); diff != "" {
		t.Errorf("kinds (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"get, list secrets", "get events"}, unmet); diff != "" {
		t.Errorf("what the export does not get (-want +got):\n%s", diff)
	}
}

func TestAnOlderBindingIsExtendedAndKeepsItsDecisions(t *testing.T) {
	w := &workspacetest.Workspace{}
	secrets, pods := claim("", "secrets", "Accepted", "get"), claim("", "pods", "Rejected", "get")
	w.Has("mine", export.Path, export.Name, reviews("Rejected"), secrets, claim("", "events", "Accepted", "get"), pods)
	plan := look(t, w)
	if err := plan.Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := asJSON(t, reviews("Rejected"), secrets, claim("", "events", "Accepted", "get", "create"), pods)
	if got := claimsOf(t, w.Binding("mine")); got != want {
		t.Errorf("the binding has\n%s, want\n%s", got, want)
	}
	if plan = look(t, w); !plan.Done() {
		t.Errorf("there is still something to do: %s", text(plan))
	}
	before := len(w.Changes())
	if err := plan.Apply(t.Context()); err != nil || len(w.Changes()) != before {
		t.Errorf("a binding that has all is changed: %v, %v", err, w.Changes())
	}
}

func TestABindingThatChangedMeanwhileIsLeftAlone(t *testing.T) {
	w := &workspacetest.Workspace{}
	w.Has("sandbar.dev", export.Path, export.Name, reviews("Accepted"))
	plan := look(t, w)
	w.Binding("sandbar.dev")["metadata"].(map[string]any)["resourceVersion"] = "2"
	if err := plan.Apply(t.Context()); !apierrors.IsConflict(err) {
		t.Errorf("got %v, want a Conflict", err)
	}
	if got := claimsOf(t, w.Binding("sandbar.dev")); got != asJSON(t, reviews("Accepted")) {
		t.Errorf("the binding has %s", got)
	}
}

func TestWhatCannotBeBoundHasAnErrorThatSaysSo(t *testing.T) {
	ending := &workspacetest.Workspace{}
	ending.Has("sandbar.dev", export.Path, export.Name)
	ending.Binding("sandbar.dev")["metadata"].(map[string]any)["deletionTimestamp"] = "2026-01-01T00:00:00Z"
	_, err := bind.Look(t.Context(), serve(t, ending), export, "")
	var gone *bind.EndingError
	if !errors.As(err, &gone) {
		t.Errorf("a binding that ends: got %v", err)
	}

	taken := &workspacetest.Workspace{}
	taken.Has("sandbar.dev", "root:other", "sandbar.dev")
	_, err = bind.Look(t.Context(), serve(t, taken), export, "")
	var other *bind.TakenError
	if !errors.As(err, &other) || other.Other.Path != "root:other" || len(taken.Changes()) > 0 {
		t.Errorf("a name that is taken: got %v, %v", err, taken.Changes())
	}

	foreign := &workspacetest.Workspace{}
	plan, err := bind.Look(t.Context(), serve(t, foreign), bind.Export{Path: "root:private", Name: "sandbar.dev"}, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := plan.Apply(t.Context()); !bind.NoRight(err) {
		t.Errorf("an export that may not be bound: got %v", err)
	}

	denied := &workspacetest.Workspace{Denied: map[string]bool{"GET /apis/apis.kcp.io/v1alpha2/apibindings": true}}
	if _, err := bind.Look(t.Context(), serve(t, denied), export, ""); !apierrors.IsForbidden(err) {
		t.Errorf("without the right to list bindings: got %v", err)
	}

	moved := &workspacetest.Workspace{Before: func(w http.ResponseWriter, r *http.Request) bool {
		http.Redirect(w, r, "https://elsewhere.invalid/", http.StatusFound)
		return true
	}}
	var redirect *client.RedirectError
	if _, err := bind.Look(t.Context(), serve(t, moved), export, ""); !errors.As(err, &redirect) {
		t.Errorf("a redirect: got %v", err)
	}
}

func TestTheWaitForABindingEnds(t *testing.T) {
	condition := func(kind, reason, message string) []any {
		return []any{map[string]any{"type": kind, "status": "False", "reason": reason, "message": message}}
	}
	for name, c := range map[string]struct {
		workspace *workspacetest.Workspace
		timeout   time.Duration
		want      string
	}{
		"with kcp's reason after the timeout": {
			workspace: &workspacetest.Workspace{Pending: -1, Conditions: condition("APIExportValid", "APIExportNotFound", "no such export")},
			timeout:   time.Second, want: "does not serve its kinds after 1s: APIExportValid: APIExportNotFound: no such export",
		},
		"without a reason too": {
			workspace: &workspacetest.Workspace{Pending: -1}, timeout: time.Second, want: "after 1s: kcp is still binding it",
		},
		"at once at a conflict of names": {
			workspace: &workspacetest.Workspace{Pending: -1, Conditions: condition("InitialBindingCompleted", "NamingConflicts", "sandboxes is taken")},
			timeout:   time.Hour, want: "in conflict with others in the workspace: sandboxes is taken",
		},
		"at once without the right to read the binding": {
			workspace: &workspacetest.Workspace{Denied: map[string]bool{"GET /apis/apis.kcp.io/v1alpha2/apibindings/sandbar.dev": true}},
			timeout:   time.Hour, want: "cannot get path",
		},
	} {
		t.Run(name, func(t *testing.T) {
			plan := look(t, c.workspace)
			if err := plan.Apply(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := plan.Wait(t.Context(), c.timeout); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
	t.Run("with the context", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := &workspacetest.Workspace{Pending: -1}
		w.Before = func(_ http.ResponseWriter, r *http.Request) bool {
			if strings.HasSuffix(r.URL.Path, "/apibindings/sandbar.dev") {
				cancel()
			}
			return false
		}
		plan := look(t, w)
		if err := plan.Apply(ctx); err != nil {
			t.Fatal(err)
		}
		if _, err := plan.Wait(ctx, time.Hour); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("though a kind that came later is in conflict", func(t *testing.T) {
		w := &workspacetest.Workspace{Conditions: condition("BindingUpToDate", "NamingConflicts", "redis is taken")}
		plan := look(t, w)
		if err := plan.Apply(t.Context()); err != nil {
			t.Fatal(err)
		}
		if bound, err := plan.Wait(t.Context(), time.Minute); err != nil || bound.Conflict != "redis is taken" {
			t.Errorf("got %+v, %v", bound, err)
		}
	})
}

// A server that fails for a moment is asked again: the binding exists, and its kinds come.
func TestTheWaitSurvivesAnAnswerThatIsAMistakeOfTheMoment(t *testing.T) {
	failures := 2
	w := &workspacetest.Workspace{}
	w.Before = func(rw http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/apibindings/sandbar.dev") || failures == 0 {
			return false
		}
		failures--
		http.Error(rw, "later", http.StatusBadGateway)
		return true
	}
	plan := look(t, w)
	if err := plan.Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := plan.Wait(t.Context(), time.Minute); err != nil || failures != 0 {
		t.Errorf("got %v with %d failures left", err, failures)
	}
}

// kcp's authorizer learns of a binding after the API is served: a command that follows bind would be refused.
func TestTheWaitIsForTheRightToTheKindsToo(t *testing.T) {
	const path = "/apis/sandbar.dev/v1alpha1/sandboxes"
	w := &workspacetest.Workspace{}
	refusals := 4 // more than it takes until the other kind is served
	w.Before = func(rw http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, path) || refusals == 0 {
			return false
		}
		refusals--
		rw.WriteHeader(http.StatusForbidden)
		return true
	}
	plan := look(t, w)
	if err := plan.Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := plan.Wait(t.Context(), time.Minute); err != nil || refusals != 0 {
		t.Errorf("it returned with %d refusals to come, %v", refusals, err)
	}

	// A person who never gets the right does not wait for it to the end.
	w = &workspacetest.Workspace{Denied: map[string]bool{"GET " + path: true}}
	plan = look(t, w)
	plan.SetPatience(time.Millisecond)
	if err := plan.Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	if bound, err := plan.Wait(t.Context(), time.Minute); err != nil || len(bound.Kinds) != 2 {
		t.Errorf("got %+v, %v", bound, err)
	}
}
