// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package tenant

import (
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/sandbar-dev/sandbar/pkg/export"
)

const annotationPatch = `{"metadata":{"annotations":{"sandbar.dev/x":"y"}}}`

func TestAnAnnotationIsWrittenAsTheCaller(t *testing.T) {
	code := http.StatusOK
	client := newClient(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got := []string{r.Method, r.URL.Path, r.Header.Get("Authorization"), r.Header.Get("Content-Type"), string(body)}
		want := []string{
			"PATCH", "/base/clusters/root:acme/apis/sandbar.dev/v1alpha1/namespaces/default/sandboxrunners/demo",
			"Bearer " + token, "application/merge-patch+json", annotationPatch,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		w.WriteHeader(code)
		_, _ = w.Write([]byte(`{}`))
	})
	for _, c := range []struct {
		code int
		want Outcome
	}{{200, Allowed}, {403, Denied}, {404, NotFound}, {401, Unauthorized}, {409, Unavailable}, {500, Unavailable}} {
		code = c.code
		if got := client.Annotate(t.Context(), Bearer(token), ref, "sandbar.dev/x", "y"); got.Outcome != c.want {
			t.Errorf("%d is %v, want %v", c.code, got.Outcome, c.want)
		}
	}
	if got := client.Annotate(t.Context(), Caller{}, ref, "sandbar.dev/x", "y"); got.Outcome != Unauthorized {
		t.Errorf("nobody: %v", got.Outcome)
	}
}

// The provider may patch what it likes: for a subject it does so only if kcp says that the subject
// may, and asks before it writes.
func TestForASubjectNothingIsWrittenWithoutKcpsYes(t *testing.T) {
	unclaimed := bound
	unclaimed.Claimed = false
	for name, c := range map[string]struct {
		in     export.Binding
		review string
		code   int
		want   Outcome
		writes int
	}{
		"allowed":                      {bound, `{"status":{"allowed":true}}`, 201, Allowed, 1},
		"denied":                       {bound, `{"status":{"allowed":false}}`, 201, Denied, 0},
		"no answer":                    {bound, `{}`, 500, Unavailable, 0},
		"a claim that is not accepted": {unclaimed, ``, 0, ClaimNotAccepted, 0},
	} {
		t.Run(name, func(t *testing.T) {
			writes := 0
			client := newVirtual(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPatch {
					writes++
					_, _ = w.Write([]byte(`{}`))
					return
				}
				var asked authorizationv1.SubjectAccessReview
				_ = json.NewDecoder(r.Body).Decode(&asked)
				want := &authorizationv1.ResourceAttributes{
					Group: ref.Group, Version: ref.Version, Resource: ref.Resource, Namespace: ref.Namespace, Name: ref.Name, Verb: "patch",
				}
				if diff := cmp.Diff(want, asked.Spec.ResourceAttributes); diff != "" || asked.Spec.User != alice.Username {
					t.Errorf("asked about %s: %s", asked.Spec.User, diff)
				}
				w.WriteHeader(c.code)
				_, _ = w.Write([]byte(c.review))
			}, c.in)
			got := client.Annotate(t.Context(), Subject(alice), ref, "sandbar.dev/x", "y")
			if got.Outcome != c.want || writes != c.writes {
				t.Errorf("got %v with %d writes, want %v with %d", got.Outcome, writes, c.want, c.writes)
			}
		})
	}
}
