// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/sandbar-dev/sandbar/client"
	"github.com/sandbar-dev/sandbar/client/object/objecttest"
)

// ofTemplate is a kind whose objects have the columns of instances.
func ofTemplate(k objecttest.Kind) objecttest.Kind {
	for _, name := range []string{ColumnState, ColumnIdle, ColumnExpires} {
		k.Columns = append(k.Columns, objecttest.Column{
			TableColumnDefinition: metav1.TableColumnDefinition{Name: name, Type: "string"},
			Cell:                  func(*unstructured.Unstructured) any { return "" },
		})
	}
	return k
}

// newInstances is a workspace with instances of three kinds, and objects of SandboxSet, which has none.
func newInstances(t *testing.T) (*objecttest.Server, *Client) {
	t.Helper()
	server := objecttest.New(
		ofTemplate(kindNamed("SandboxRunner", "sandboxrunners", "sbr")), ofTemplate(kindNamed("Sandbox", "sandboxes", "sbx")),
		ofTemplate(objecttest.Kind{GVK: schema.GroupVersionKind{Group: "things.example.com", Version: "v1", Kind: "Thing"}, Resource: "things"}),
		kindNamed("SandboxSet", "sandboxsets", "sbs"),
		objecttest.Kind{GVK: schema.GroupVersionKind{Group: "apis.kcp.io", Version: "v1alpha2", Kind: "APIBinding"}, Resource: "apibindings", Cluster: true},
	)
	bind(server)
	for resource, names := range map[string][]string{
		"sandboxrunners": {"web", "both"}, "sandboxes": {"both", "box", "twice"}, "things": {"twice", "thing"}, "sandboxsets": {"box", "set"},
	} {
		for _, name := range names {
			server.Put(resource, map[string]any{"apiVersion": "v1", "kind": "X", "metadata": map[string]any{"name": name}})
		}
	}
	return server, clientOf(t, server)
}

// meant is the resource of the instance that a reference leads to, and how often it was looked for.
func meant(t *testing.T, c *Client, r Reference) (string, int, error) {
	t.Helper()
	var resource string
	times := 0
	err := c.WithKindOf(t.Context(), "default", r, func(k Kind) error {
		times++
		_, err := c.Get(t.Context(), k, "default", r.Name, false)
		if err == nil {
			resource = k.Resource.Resource
		}
		return err
	})
	return resource, times, err
}

func TestAReferenceMeansTheInstanceOfItsKindOrTheOnlyOne(t *testing.T) {
	_, c := newInstances(t)
	for text, want := range map[string]string{
		"web": "sandboxrunners", "both": "sandboxrunners", "box": "sandboxes", "thing": "things",
		"sandbox/both": "sandboxes", "sandboxes/both": "sandboxes", "sbx/both": "sandboxes", "Sandbox/both": "sandboxes",
		"sandboxes.sandbar.dev/both": "sandboxes", "sandboxes.v1alpha1.sandbar.dev/both": "sandboxes",
		"thing/twice": "things", "things.things.example.com/twice": "things", "sbr/both": "sandboxrunners",
	} {
		r, err := ParseReference(text)
		if err != nil {
			t.Fatal(err)
		}
		if got, _, err := meant(t, c, r); got != want || err != nil {
			t.Errorf("%s means %q (%v), want %q", text, got, err, want)
		}
		if r.String() != text {
			t.Errorf("%s is written %s", text, r)
		}
	}
	if got, _, err := meant(t, c, Reference{Name: "twice", Resource: schema.GroupVersionResource{Group: "things.example.com", Version: "v1", Resource: "things"}}); got != "things" || err != nil {
		t.Errorf("a resource means %q (%v)", got, err)
	}
}

func TestANameOfSeveralKindsIsRefusedWithThem(t *testing.T) {
	_, c := newInstances(t)
	var ambiguous *AmbiguousNameError
	_, times, err := meant(t, c, Reference{Name: "twice"})
	if !errors.As(err, &ambiguous) || times != 1 {
		t.Fatalf("got %v after %d calls", err, times)
	}
	if want := "several kinds have an instance twice: write sandboxes/twice or things.things.example.com/twice"; err.Error() != want {
		t.Errorf("it says %q, want %q", err, want)
	}
}

// What no kind of a Template has is told as the SandboxRunner that is missing, also if a SandboxSet has the name.
func TestANameThatNoInstanceHasKeepsTheFirstError(t *testing.T) {
	server, c := newInstances(t)
	for _, name := range []string{"none", "set"} {
		if _, times, err := meant(t, c, Reference{Name: name}); !apierrors.IsNotFound(err) || !strings.Contains(err.Error(), "sandboxrunners") || times != 1 {
			t.Errorf("%s: %v after %d calls", name, err, times)
		}
	}
	var unknown *UnknownKindError
	if _, times, err := meant(t, c, Reference{Kind: "pod", Name: "web"}); !errors.As(err, &unknown) || times != 0 {
		t.Errorf("an unknown kind: %v after %d calls", err, times)
	}
	// A kind that may not be read cannot be meant; one that fails otherwise leaves open what is.
	for code, want := range map[int]string{http.StatusForbidden: "things", http.StatusInternalServerError: ""} {
		server.Intercept(func(rw http.ResponseWriter, r *http.Request) bool {
			if !strings.HasSuffix(r.URL.Path, "/sandboxes/twice") {
				return false
			}
			objecttest.Refuse(rw, &apierrors.StatusError{ErrStatus: metav1.Status{Code: int32(code), Reason: reasonFor[code], Status: metav1.StatusFailure}})
			return true
		})
		if got, _, err := meant(t, c, Reference{Name: "twice"}); got != want || (want == "") != apierrors.IsNotFound(err) {
			t.Errorf("after %d it means %q (%v), want %q", code, got, err, want)
		}
	}
}

var reasonFor = map[int]metav1.StatusReason{http.StatusForbidden: metav1.StatusReasonForbidden, http.StatusInternalServerError: metav1.StatusReasonInternalError}

// A SandboxRunner, and a resource that the caller knows, cost one request; a kind that is a word costs one to look it up.
func TestAReferenceCostsNoRequestInTheOrdinaryCase(t *testing.T) {
	server, c := newInstances(t)
	for _, r := range []struct {
		Reference
		requests int
	}{
		{Reference{Name: "web"}, 1},
		{Reference{Name: "both", Resource: client.SandboxRunners}, 1},
		{Reference{Kind: "sbx", Name: "box"}, 2},
	} {
		before := len(server.Requests())
		if _, _, err := meant(t, c, r.Reference); err != nil {
			t.Fatal(err)
		}
		if asked := server.Requests()[before:]; len(asked) != r.requests {
			t.Errorf("%s costs %d requests, want %d: %q", r, len(asked), r.requests, asked)
		}
	}
}

func TestATextThatIsNoReferenceIsRefused(t *testing.T) {
	for _, text := range []string{"", "/web", "sandbox/", "a/b/c", "default/sandbox/web", "My_App", "sandbox/My_App", "-web"} {
		var refused *ReferenceError
		if r, err := ParseReference(text); !errors.As(err, &refused) {
			t.Errorf("%q is %v (%v)", text, r, err)
		}
	}
}

func TestNamesThatCanStandAlone(t *testing.T) {
	_, c := newInstances(t)
	got, err := c.NamesAlone(t.Context(), "default", 100)
	if want := "[both box thing web]"; err != nil || fmt.Sprint(got) != want {
		t.Errorf("got %v (%v), want %s", got, err, want)
	}
}
