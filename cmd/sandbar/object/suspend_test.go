// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package object

import (
	"net/http"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sandbar-dev/sandbar/cmd/sandbar/clitest"
)

// suspend and resume change spec.suspended once, wait until the status is that of the change, and are idempotent.
func TestSuspendAndResume(t *testing.T) {
	w := newWorld(t)
	s := w.WithObjects(t)
	s.Put("sandboxrunners", clitest.Suspendable(false))
	patches := 0
	s.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPatch {
			patches++
		}
		if r.URL.Query().Get("watch") != "" { // only now the provider sees the change
			obj := s.Object("sandboxrunners", "default", "web")
			suspended, _, _ := unstructured.NestedBool(obj.Object, "spec", "suspended")
			status := clitest.Suspendable(suspended)["status"].(map[string]any)
			status["observedGeneration"] = obj.GetGeneration()
			obj.Object["status"] = status
			s.Put("sandboxrunners", obj.Object)
		}
		return false
	})
	for _, c := range []struct {
		verb, says string
		patches    int
	}{
		{"suspend", "web is suspended.\n", 1},
		{"suspend", "web was suspended already.\n", 1},
		{"resume", "web has been resumed, and is Ready.\n", 2},
		{"resume", "web was not suspended, and is Ready.\n", 2},
	} {
		code, _, stderr := w.Run(t, c.verb, "web")
		if code != 0 || stderr != c.says || patches != c.patches {
			t.Errorf("%s: exit code %d, %d patches, %q, want %q and %d", c.verb, code, patches, stderr, c.says, c.patches)
		}
	}
}

// A spec that is refused keeps nothing from being suspended and resumed: it runs with what it had.
func TestAResumedInstanceWhoseSpecIsRefusedIsDescribed(t *testing.T) {
	w := newWorld(t)
	s := w.WithObjects(t)
	box := clitest.Suspendable(false)
	box["status"].(map[string]any)["phase"] = "Degraded"
	box["status"].(map[string]any)["conditions"] = []any{map[string]any{"type": "Ready", "status": "False", "reason": "NotComposed", "message": "the limits are too high"}}
	s.Put("sandboxrunners", box)
	code, _, stderr := w.Run(t, "resume", "web")
	if code != 0 || !strings.HasPrefix(stderr, "web was not suspended, and is Degraded: ") || !strings.Contains(stderr, "the limits are too high") {
		t.Errorf("exit code %d, %q", code, stderr)
	}
}

// The end of the wait was told in the words of the call that it interrupted: "client rate limiter Wait returned an error".
func TestTheEndOfAWaitIsToldInItsOwnWords(t *testing.T) {
	w := newWorld(t)
	s := w.WithObjects(t)
	s.Put("sandboxrunners", clitest.Suspendable(false))
	for _, hangs := range []string{"watch", "fieldSelector"} { // the second one already when the wait begins
		s.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
			if r.URL.Query().Get(hangs) == "" {
				return false
			}
			<-r.Context().Done() // until the caller leaves
			return true
		})
		code, _, stderr := w.Run(t, "suspend", "web", "--timeout", "1s")
		if code != 1 || stderr != "sandbar: web is still Ready after 1s; --timeout gives it longer\n" {
			t.Errorf("exit code %d, %q", code, stderr)
		}
		if code, _, stderr := w.Run(t, "resume", "web", "--wait=false"); code != 0 {
			t.Fatal(stderr)
		}
	}
}

func TestAnInstanceThatIsDeletedDuringTheWaitIsTold(t *testing.T) {
	w := newWorld(t)
	s := w.WithObjects(t)
	s.Put("sandboxrunners", clitest.Suspendable(false))
	s.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("watch") != "" {
			s.Remove("sandboxrunners", "default", "web")
		}
		return false
	})
	if code, _, stderr := w.Run(t, "suspend", "web"); code != 1 || stderr != "sandbar: the SandboxRunner web was deleted meanwhile\n" {
		t.Errorf("exit code %d, %q", code, stderr)
	}
}

// suspend has the same arguments as the verbs of the data plane, and needs no data plane.
func TestSuspendTakesNameAndKind(t *testing.T) {
	w := newWorld(t)
	s := w.Stocked(t)
	for _, name := range []string{"new", "sandbox/new", "sbx/new"} {
		if code, _, stderr := w.Run(t, "suspend", name, "--wait=false", "-n", "other"); code != 0 || stderr != name+" is being suspended.\n" {
			t.Errorf("%s: exit code %d, %s", name, code, stderr)
		}
		if suspended, _ := s.Object("sandboxes", "other", "new").Object["spec"].(map[string]any)["suspended"].(bool); !suspended {
			t.Errorf("%s is not suspended", name)
		}
		if code, _, stderr := w.Run(t, "resume", name, "--wait=false", "-n", "other"); code != 0 {
			t.Errorf("%s is not resumed: %s", name, stderr)
		}
	}
}
