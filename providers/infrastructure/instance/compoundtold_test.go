// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/fixture"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
)

// An annotation changes no generation: the second of two wishes was taken for a change of somebody else's.
func TestWhatATenantAsksForWithoutAnotherGenerationCountsAtOnce(t *testing.T) {
	w, h := newCompoundWorld(t)
	at := time.Now()
	w.now = func() time.Time { return at }
	w.rest(h)
	for _, asked := range []string{"2026-11-28T17:00:00Z", "2026-11-28T17:00:05Z"} {
		w.inKCP.SetAnnotations(map[string]string{sandbarv1alpha1.AnnotationResnapshot: asked})
		w.rest(h)
		w.wantPhase("Materializing", "Applied", "ApplySucceeded")
		if got := h.part.GetAnnotations()[sandbarv1alpha1.AnnotationResnapshot]; got != asked {
			t.Errorf("the part is asked for %q, want %q", got, asked)
		}
		at = at.Add(correctAgain / 2)
	}
}

func TestASuspendedCompoundInstanceIsSuspendedWhileItIsDeleted(t *testing.T) {
	w, h := newCompoundWorld(t)
	w.rest(h)
	w.changeSpec("suspended", true)
	w.rest(h)
	h.says("Suspended", "False")
	w.rest(h)
	w.inKCP.SetDeletionTimestamp(&metav1.Time{Time: time.Now()})
	w.rest(h)
	w.wantPhase("Deleting", "Suspended", "ByUser")
	if cause, _, _ := unstructured.NestedString(w.inKCP.Object, "status", "suspension", "cause"); cause != "ByUser" {
		t.Errorf("the cause of its suspension is %q", cause)
	}
}

const notFollowed = "waiting until the provider follows the kind Heap"

// It was looked at once a second, without a word, for as long as nobody followed its part.
func TestACompoundInstanceTellsThatItsPartsAreNotFollowed(t *testing.T) {
	at := time.Now()
	w, h := newCompoundWorld(t)
	w.now = func() time.Time { return at }
	w.parts, w.settings.Since = nil, at
	if result := w.rest(h); result.RequeueAfter != followedIn || len(w.inKCP.GetFinalizers()) > 0 {
		t.Errorf("%v, finalizers %v", result, w.inKCP.GetFinalizers())
	}
	w.wantPhase("Pending", "Applied", "ApplyFailed")
	if message := fixture.ConditionOf(t, w.inKCP, "Ready").Message; !strings.HasPrefix(message, notFollowed) {
		t.Errorf("it says %q", message)
	}
	at = at.Add(followedIn)
	if result := w.rest(h); result.RequeueAfter != 0 {
		t.Errorf("it is looked at again in %v", result.RequeueAfter)
	}
	w.parts = h
	w.rest(h)
	w.wantPhase("Materializing", "Applied", "ApplySucceeded")
}

// The kinds of a provider that starts are followed one after the other.
func TestACompoundInstanceStaysAsItIsWhileTheProviderStarts(t *testing.T) {
	at := time.Now()
	w, h := newCompoundWorld(t)
	w.now = func() time.Time { return at }
	w.rest(h)
	h.says("Ready", "True")
	w.rest(h)
	w.parts, w.settings.Since = nil, at
	if result := w.rest(h); result.RequeueAfter != followedIn {
		t.Errorf("it is looked at again in %v", result.RequeueAfter)
	}
	w.wantPhase("Ready", "Ready", "WorkloadsReady")
	at = at.Add(followedIn)
	if result := w.rest(h); result.RequeueAfter != 0 {
		t.Errorf("it is looked at again in %v", result.RequeueAfter)
	}
	w.wantPhase("Degraded", "Applied", "ApplyFailed")
	if key, _, _ := unstructured.NestedString(w.inKCP.Object, "status", "routingKey", "value"); key != "sbx-abcd1234" {
		t.Errorf("the routing key was sbx-abcd1234, and is %q", key)
	}
	w.parts = h
	w.rest(h)
	w.wantPhase("Ready", "Ready", "WorkloadsReady")
}

func TestACompoundInstanceWhosePartsAreNotFollowedEnds(t *testing.T) {
	w, h := newCompoundWorld(t)
	w.rest(h)
	end := time.Now().Add(time.Minute)
	w.changeSpec("lifecycle", map[string]any{"shutdownTime": end.UTC().Format(time.RFC3339), "shutdownPolicy": "Delete"})
	w.parts = nil
	if again := w.rest(h).RequeueAfter; again == 0 || again > time.Minute {
		t.Errorf("it is looked at again in %v", again)
	}
	w.now = func() time.Time { return end.Add(time.Second) }
	w.patches = nil
	if err := w.reconcile(); err != nil || !slices.Contains(w.patches, "removed") {
		t.Errorf("it is not deleted: %v, %v", w.patches, err)
	}
	w.rest(h)
	w.wantPhase("Deleting", "Ready", outcome.ReasonDeleting)
	if message := fixture.ConditionOf(t, w.inKCP, "Ready").Message; !strings.HasPrefix(message, notFollowed) {
		t.Errorf("it says %q", message)
	}
	if h.part.GetDeletionTimestamp() != nil {
		t.Error("what nobody follows is deleted")
	}
}
