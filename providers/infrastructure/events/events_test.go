// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package events

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sandbar-dev/sandbar/pkg/export"
)

var (
	now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	key = export.Key{Cluster: "tenant", NamespacedName: types.NamespacedName{Namespace: "team-a", Name: "web"}}
)

func newRecorder(record Record) *Recorder {
	return NewRecorder(record, prometheus.NewCounterVec(prometheus.CounterOpts{Name: "events_total", Help: "Events by outcome."}, []string{"outcome"}))
}

func about(uid types.UID) *corev1.Event {
	return Build(&corev1.ObjectReference{Kind: "Thing", Namespace: "team-a", Name: "web", UID: uid}, corev1.EventTypeNormal, "Ready", "it is", now)
}

func TestTheOutcomeOfAnEvent(t *testing.T) {
	resource := schema.GroupResource{Resource: "events"}
	for name, test := range map[string]struct {
		answer error
		want   []string // of two events in a row
	}{
		"kcp takes it":              {nil, []string{written, written}},
		"the claim is not accepted": {apierrors.NewForbidden(resource, "", errors.New("no")), []string{unclaimed, unclaimed}},
		"kcp does not offer events": {apierrors.NewNotFound(resource, ""), []string{unclaimed, unclaimed}},
		"kcp does not answer":       {context.DeadlineExceeded, []string{unanswered, unanswered}},
		"kcp has it already":        {apierrors.NewAlreadyExists(resource, ""), []string{written, written}},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			recorder := newRecorder(func(context.Context, export.Key, *corev1.Event) error { asked++; return test.answer })
			var got []string
			for range 2 {
				got = append(got, recorder.try(t.Context(), key, about("uid"), now))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if isUnclaimed := got[0] == unclaimed; isUnclaimed != (asked == 1) {
				t.Errorf("kcp was asked %d times", asked)
			}
		})
	}
}

func TestAWorkspaceThatHasNotAcceptedTheClaimIsAskedAgainLater(t *testing.T) {
	answer := error(apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "", errors.New("no")))
	recorder := newRecorder(func(context.Context, export.Key, *corev1.Event) error { return answer })
	recorder.Write(t.Context(), key, about("uid"), now)
	answer = nil
	recorder.Write(t.Context(), key, about("uid"), now.Add(unclaimedTime-time.Second))
	recorder.Write(t.Context(), key, about("uid"), now.Add(unclaimedTime))
	for outcome, want := range map[string]float64{unclaimed: 2, written: 1} {
		var counted dto.Metric
		if err := recorder.outcomes.WithLabelValues(outcome).Write(&counted); err != nil {
			t.Fatal(err)
		}
		if got := counted.GetCounter().GetValue(); got != want {
			t.Errorf("%v are counted as %s, want %v", got, outcome, want)
		}
	}
}

func TestWhatFlapsDoesNotFillItsWorkspace(t *testing.T) {
	recorder := newRecorder(func(context.Context, export.Key, *corev1.Event) error { return nil })
	count := func(uid types.UID, n int, now time.Time) (n1 int) {
		for range n {
			if recorder.admits(about(uid), now) {
				n1++
			}
		}
		return n1
	}
	got := []int{count("one", 100, now), count("another", 1, now), count("one", 100, now.Add(2*interval))}
	if diff := cmp.Diff([]int{burst, 1, 2}, got); diff != "" {
		t.Errorf("written at once, of another object, and later (-want +got):\n%s", diff)
	}
}

func TestAnEventsNameFitsHoweverLongTheObjectsIs(t *testing.T) {
	if got := NamePrefix(strings.Repeat("a", 253)); len(got) > 253-len("12345") {
		t.Errorf("%d characters", len(got))
	}
}
