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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sandbar-dev/sandbar/client/object/objecttest"
)

// edit changes an object as another person's program does, some time ago.
func edit(server *objecttest.Server, name, manager string, ago time.Duration, change func(obj map[string]any), wrote string) *unstructured.Unstructured {
	obj := server.Object("sandboxes", "default", name)
	change(obj.Object)
	at := metav1.NewTime(time.Now().Add(-ago))
	obj.SetManagedFields(append(obj.GetManagedFields(), metav1.ManagedFieldsEntry{
		Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "sandbar.dev/v1alpha1", Time: &at,
		FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(wrote),
	}))
	return server.Put("sandboxes", obj.Object)
}

func TestAnObjectIsCreatedAsTheServerAnswers(t *testing.T) {
	server, c := newWorkspace(t)
	k := sandboxesOf(t, c)
	obj := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "web"}, "spec": map[string]any{}}}
	dry, err := c.Create(t.Context(), k, "default", obj, WriteOptions{DryRun: true})
	if err != nil || dry.GetUID() == "" || server.Object("sandboxes", "default", "web") != nil {
		t.Fatalf("%v %v", dry, err)
	}
	created, err := c.Create(t.Context(), k, "default", obj, WriteOptions{})
	if err != nil || created.GetResourceVersion() == "" || created.GetKind() != "Sandbox" || created.GetNamespace() != "default" {
		t.Fatalf("%v %v", created, err)
	}
	if _, err := c.Create(t.Context(), k, "default", obj, WriteOptions{}); !apierrors.IsAlreadyExists(err) {
		t.Errorf("%v", err)
	}
	// A field that the kind does not have would be dropped without a word.
	requests := server.Requests()
	if last := requests[len(requests)-1]; !strings.Contains(last, "fieldValidation=Strict") || !strings.Contains(last, "fieldManager=sandbar") {
		t.Errorf("%s", last)
	}
}

func TestAnObjectOfSandbarsSaysWhoHasCreatedIt(t *testing.T) {
	review := func(status int, body string) func(http.ResponseWriter, *http.Request) bool {
		return func(rw http.ResponseWriter, r *http.Request) bool {
			if !strings.HasSuffix(r.URL.Path, "/selfsubjectreviews") {
				return false
			}
			rw.Header().Set("Content-Type", "application/json")
			rw.WriteHeader(status)
			_, _ = rw.Write([]byte(body))
			return true
		}
	}
	const anonymous = `{"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1","status":{"userInfo":{"username":"system:anonymous"}}}`
	for name, tc := range map[string]struct {
		resource string
		signed   string // by its manifest
		review   func(http.ResponseWriter, *http.Request) bool
		want     string
	}{
		"a Sandbox":                                 {resource: "sandboxes", want: "alice"},
		"a built-in kind":                           {resource: "sandboxsets", want: "alice"},
		"a kind of somebody else":                   {resource: "things.things.example.com"},
		"one whose manifest names the creator":      {resource: "sandboxes", signed: "bob", want: "bob"},
		"the workspace does not tell":               {resource: "sandboxes", review: review(http.StatusForbidden, `{"kind":"Status","status":"Failure","code":403,"reason":"Forbidden"}`)},
		"the workspace answers with something else": {resource: "sandboxes", review: review(http.StatusOK, `<html>`)},
		"the credential is nobody's":                {resource: "sandboxes", review: review(http.StatusCreated, anonymous)},
	} {
		t.Run(name, func(t *testing.T) {
			server, c := newWorkspace(t)
			server.User = "alice"
			server.Intercept(tc.review)
			k, err := c.Kind(t.Context(), tc.resource)
			if err != nil {
				t.Fatal(err)
			}
			obj := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "web"}, "spec": map[string]any{}}}
			if tc.signed != "" {
				obj.SetAnnotations(map[string]string{"sandbar.dev/created-by": tc.signed})
			}
			created, err := c.Create(t.Context(), k, "default", obj, WriteOptions{})
			if err != nil {
				t.Fatal(err)
			}
			got, there := created.GetAnnotations()["sandbar.dev/created-by"]
			if got != tc.want || there != (tc.want != "") {
				t.Errorf("annotations %v, want the creator %q", created.GetAnnotations(), tc.want)
			}
		})
	}
}

// A manifest of many objects asked the workspace who creates them for each.
func TestTheCreatorOfManyObjectsIsAskedForOnce(t *testing.T) {
	server, c := newWorkspace(t)
	server.User = "alice"
	asked := 0
	server.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/selfsubjectreviews") {
			asked++
		}
		return false
	})
	k := sandboxesOf(t, c)
	for _, name := range []string{"a", "b", "c"} {
		obj := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": name}, "spec": map[string]any{}}}
		created, err := c.Create(t.Context(), k, "default", obj, WriteOptions{})
		if err != nil || created.GetAnnotations()["sandbar.dev/created-by"] != "alice" {
			t.Errorf("%s: %v, %v", name, created, err)
		}
	}
	if asked != 1 {
		t.Errorf("the workspace was asked %d times", asked)
	}
}

func TestMarkKeepsValuesThatAreThereUnlessItOverwrites(t *testing.T) {
	server, c := newWorkspace(t)
	server.Put("sandboxes", sandbox("web", map[string]any{"env": "test", "tier": "web"}))
	k := sandboxesOf(t, c)
	mark := func(pairs Pairs, overwrite bool) (bool, error) {
		_, changed, err := c.Mark(t.Context(), k, "default", "web", Labels, pairs, overwrite, WriteOptions{})
		return changed, err
	}
	_, err := mark(Pairs{Set: map[string]string{"env": "prod"}}, false)
	var taken *OverwriteError
	if !errors.As(err, &taken) || err.Error() != `the label env of web is "test", and would become "prod"` {
		t.Errorf("%v", err)
	}
	if changed, err := mark(Pairs{Set: map[string]string{"env": "test"}, Remove: []string{"none"}}, false); changed || err != nil {
		t.Errorf("changed: %t, %v", changed, err)
	}
	if changed, err := mark(Pairs{Set: map[string]string{"env": "prod", "team": "a"}, Remove: []string{"tier"}}, true); !changed || err != nil {
		t.Errorf("changed: %t, %v", changed, err)
	}
	if got := server.Object("sandboxes", "default", "web").GetLabels(); len(got) != 2 || got["env"] != "prod" || got["team"] != "a" {
		t.Errorf("%v", got)
	}
}

// Between the read and the write somebody else sets the same label: without overwrite that is refused, and with it the
// other's changes of other labels stay.
func TestMarkDoesNotOverwriteWhatWasSetMeanwhile(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile string
		overwrite bool
		want      string
	}{
		"the same label":               {"env", false, `the label env of web is "theirs", and would become "ours"`},
		"the same label, to overwrite": {"env", true, ""},
		"another label":                {"team", false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			server, client := newWorkspace(t)
			server.Put("sandboxes", sandbox("web", nil))
			k := sandboxesOf(t, client)
			first := true
			server.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
				if r.Method == http.MethodPatch && first {
					first = false
					server.Put("sandboxes", sandbox("web", map[string]any{c.meanwhile: "theirs"}))
				}
				return false
			})
			_, _, err := client.Mark(t.Context(), k, "default", "web", Labels, Pairs{Set: map[string]string{"env": "ours"}}, c.overwrite, WriteOptions{})
			if text(err) != c.want {
				t.Fatalf("%v, want %q", err, c.want)
			}
			labels := server.Object("sandboxes", "default", "web").GetLabels()
			if c.want == "" && (labels["env"] != "ours" || c.meanwhile == "team" && labels["team"] != "theirs") {
				t.Errorf("%v", labels)
			}
		})
	}
}

func TestAStaleVersionIsRefusedWithWhatChangedAndByWhom(t *testing.T) {
	server, c := newWorkspace(t)
	known := server.Put("sandboxes", sandbox("web", map[string]any{"env": "test"}))
	k := sandboxesOf(t, c)
	edit(server, "web", "kubectl-edit", 30*time.Hour, func(o map[string]any) {
		o["spec"] = map[string]any{"lifecycle": map[string]any{"shutdownTime": "2030-01-01T00:00:00Z"}}
	}, `{"f:spec":{"f:lifecycle":{"f:shutdownTime":{}}}}`)
	now := edit(server, "web", "sandbar-provider", 12*time.Minute, func(o map[string]any) {
		o["status"] = map[string]any{"phase": "Degraded"}
	}, `{"f:status":{"f:phase":{}}}`)
	const want = "web has changed since version "
	const changes = ": spec.lifecycle.shutdownTime (by kubectl-edit, 30h ago), status (by sandbar-provider, 12m ago)"
	stale := WriteOptions{Version: known.GetResourceVersion()}
	for name, write := range map[string]func() error{
		"a label": func() error {
			_, _, err := c.Mark(t.Context(), k, "default", "web", Labels, Pairs{Set: map[string]string{"a": "b"}}, false, stale)
			return err
		},
		"delete": func() error { return c.Delete(t.Context(), k, known, stale) },
	} {
		err := write()
		var conflict *ConflictError
		if !errors.As(err, &conflict) || err.Error() != want+known.GetResourceVersion()+changes || conflict.Current.GetResourceVersion() != now.GetResourceVersion() {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := server.Object("sandboxes", "default", "web"); got.GetResourceVersion() != now.GetResourceVersion() {
		t.Error("it was changed")
	}
	// A server that does not have the version any more knows who changed the object last.
	server.Forget()
	if _, _, err := c.Mark(t.Context(), k, "default", "web", Labels, Pairs{Remove: []string{"env"}}, false, stale); text(err) != want+known.GetResourceVersion()+": the server has no such version any more; the last change is by sandbar-provider, 12m ago" {
		t.Errorf("%v", err)
	}
	current := WriteOptions{Version: now.GetResourceVersion()}
	if _, changed, err := c.Mark(t.Context(), k, "default", "web", Labels, Pairs{Set: map[string]string{"a": "b"}}, false, current); !changed || err != nil {
		t.Errorf("with the present version: %v", err)
	}
}

func TestAConflictNamesAFewChangesAndCountsTheOthers(t *testing.T) {
	server, c := newWorkspace(t)
	known := server.Put("sandboxes", sandbox("web", nil))
	k := sandboxesOf(t, c)
	for want, g := range map[string]any{
		"one other field": "1", "3 other fields": map[string]any{"x": "1", "y": "1", "z": "1"},
	} {
		edit(server, "web", "x", time.Second, func(o map[string]any) {
			o["spec"] = map[string]any{"a": "1", "b": "1", "c": []any{"1"}, "d": "1", "e": map[string]any{"f": "1", "g": g}}
		}, `{}`)
		err := c.Delete(t.Context(), k, known, WriteOptions{Version: known.GetResourceVersion()})
		if !strings.HasSuffix(text(err), ": spec.a, spec.b, spec.c, spec.d, spec.e.f, and "+want) {
			t.Errorf("%v", err)
		}
	}
}

// An object that was deleted and created again under its name is another one: a person who reads one and deletes it
// does not mean the other.
func TestDeleteSparesAnObjectThatWasCreatedAgain(t *testing.T) {
	server, c := newWorkspace(t)
	known := server.Put("sandboxes", sandbox("web", nil))
	k := sandboxesOf(t, c)
	server.Remove("sandboxes", "default", "web")
	if err := c.Delete(t.Context(), k, known, WriteOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("%v", err)
	}
	server.Put("sandboxes", sandbox("web", nil))
	err := c.Delete(t.Context(), k, known, WriteOptions{})
	var conflict *ConflictError
	if !errors.As(err, &conflict) || !conflict.Gone || err.Error() != "the Sandbox web was deleted and created again since you read it" {
		t.Errorf("%v", err)
	}
	if server.Object("sandboxes", "default", "web") == nil {
		t.Error("the other one was deleted")
	}
}

func TestAConflictIsToldAlsoWhenTheObjectCannotBeRead(t *testing.T) {
	server, c := newWorkspace(t)
	known := server.Put("sandboxes", sandbox("web", nil))
	k := sandboxesOf(t, c)
	server.Put("sandboxes", sandbox("web", map[string]any{"a": "b"}))
	server.Intercept(func(rw http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodGet {
			objecttest.Refuse(rw, apierrors.NewServiceUnavailable("the shard is away"))
			return true
		}
		return false
	})
	err := c.Delete(t.Context(), k, known, WriteOptions{Version: known.GetResourceVersion()})
	if want := "web does not have the version " + known.GetResourceVersion() + " any more, and cannot be read now"; text(err) != want {
		t.Errorf("%v", err)
	}
}

func TestADryRunDeletesNothing(t *testing.T) {
	server, c := newWorkspace(t)
	known := server.Put("sandboxes", sandbox("web", nil))
	if err := c.Delete(t.Context(), sandboxesOf(t, c), known, WriteOptions{DryRun: true}); err != nil || server.Object("sandboxes", "default", "web") == nil {
		t.Errorf("%v", err)
	}
}

func TestAwaitSeesEachStateUntilTheLast(t *testing.T) {
	server, c := newWorkspace(t)
	k := sandboxesOf(t, c)
	var seen []string
	states := []string{"Pending", "Materializing", "Ready"}
	err := c.Await(t.Context(), k, "default", "web", time.Minute, func(obj *unstructured.Unstructured) (bool, error) {
		if obj == nil {
			seen = append(seen, "none")
		} else {
			seen = append(seen, StateOf(obj))
		}
		if len(seen) > len(states) {
			return true, nil
		}
		next := sandbox("web", nil)
		next["status"] = map[string]any{"phase": states[len(seen)-1]}
		server.Put("sandboxes", next)
		return false, nil
	})
	if got := strings.Join(seen, " "); err != nil || got != "none Pending Materializing Ready" {
		t.Errorf("%s %v", got, err)
	}
}

func TestAwaitThatTakesTooLongSaysTheLastState(t *testing.T) {
	server, c := newWorkspace(t)
	server.Put("sandboxes", sandbox("web", nil))
	k := sandboxesOf(t, c)
	never := func(*unstructured.Unstructured) (bool, error) { return false, nil }
	err := c.Await(t.Context(), k, "default", "web", 50*time.Millisecond, never)
	var late *TimeoutError
	if !errors.As(err, &late) || err.Error() != "web is still Ready after 50ms" {
		t.Errorf("%v", err)
	}
	if err = c.Await(t.Context(), k, "default", "none", 50*time.Millisecond, never); text(err) != "none is not there after 50ms" {
		t.Errorf("%v", err)
	}
}

func TestAnObjectIsGoneWhenAnotherHasItsName(t *testing.T) {
	server, c := newWorkspace(t)
	known := server.Put("sandboxes", sandbox("web", nil))
	k := sandboxesOf(t, c)
	server.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("watch") != "" && server.Object("sandboxes", "default", "web").GetUID() == known.GetUID() {
			server.Remove("sandboxes", "default", "web")
			server.Put("sandboxes", sandbox("web", nil))
		}
		return false
	})
	if err := c.AwaitGone(t.Context(), k, "default", "web", known.GetUID(), time.Minute); err != nil {
		t.Error(err)
	}
}

func TestAConditionIsReachedInThePresentGeneration(t *testing.T) {
	ready := Condition{"Ready", metav1.ConditionTrue}
	object := func(generation, observed int64, phase, status string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"name": "web", "generation": generation},
			"status": map[string]any{"phase": phase, "observedGeneration": observed, "conditions": []any{
				map[string]any{"type": "Ready", "status": status, "message": "the image \x1b[2J is missing"},
			}},
		}}
	}
	for name, c := range map[string]struct {
		obj     *unstructured.Unstructured
		reached bool
		err     string
	}{
		"ready":                      {object(2, 2, "Ready", "True"), true, ""},
		"ready before the change":    {object(2, 1, "Ready", "True"), false, ""},
		"not ready":                  {object(1, 1, "Materializing", "False"), false, ""},
		"failed":                     {object(1, 1, "Failed", "False"), false, `web does not become Ready by itself: it is Failed: the image \x1b[2J is missing`},
		"failed before the change":   {object(2, 1, "Failed", "False"), false, ""},
		"without a status":           {&unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"generation": int64(1)}}}, false, ""},
		"a status of another form":   {&unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": "none"}}}, false, ""},
		"without observedGeneration": {&unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "True"}}}}}, true, ""},
	} {
		if reached, err := ready.Reached(c.obj); reached != c.reached || text(err) != c.err {
			t.Errorf("%s: %t %v", name, reached, err)
		}
	}
}
