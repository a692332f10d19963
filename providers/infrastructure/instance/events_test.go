// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/fixture"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
)

func TestAnEventIsWrittenOnceForEachChangeOfThePhase(t *testing.T) {
	w := newWorld(t)
	w.settle()
	w.kroSays(fixture.KroReady(0))
	w.settle()
	instance := w.kroInstance()
	w.kroSays(fixture.KroReady(instance.GetGeneration()))
	w.settle()
	w.settle()
	var told []string
	for _, event := range w.events {
		told = append(told, event.Type+" "+event.Reason)
		if event.InvolvedObject.UID != fixture.UID || event.InvolvedObject.Kind != "Thing" || event.Namespace != "team-a" {
			t.Errorf("it is about %v in %s", event.InvolvedObject, event.Namespace)
		}
	}
	if diff := cmp.Diff([]string{"Normal Ready"}, told); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTheFateOfAnEvent(t *testing.T) {
	events := schema.GroupResource{Resource: "events"}
	for name, test := range map[string]struct {
		answer error
		want   []string // of two events in a row
	}{
		"kcp takes it":              {nil, []string{"written", "written"}},
		"the claim is not accepted": {apierrors.NewForbidden(events, "", errors.New("no")), []string{"unclaimed", "unclaimed"}},
		"kcp does not offer events": {apierrors.NewNotFound(events, ""), []string{"unclaimed", "unclaimed"}},
		"kcp does not answer":       {context.DeadlineExceeded, []string{"failed", "failed"}},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			recorder := newEventRecorder(func(context.Context, request, *corev1.Event) error { asked++; return test.answer })
			var got []string
			for range 2 {
				s := fixture.NewScope()
				got = append(got, recorder.try(t.Context(), testRequest, s, outcome.BuildEvent(s, "Ready", "", fixture.Now), fixture.Now))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if unclaimed := got[0] == "unclaimed"; unclaimed != (asked == 1) {
				t.Errorf("kcp was asked %d times", asked)
			}
		})
	}
}

func TestWhatFlapsDoesNotFillItsWorkspace(t *testing.T) {
	recorder := newEventRecorder(func(context.Context, request, *corev1.Event) error { return nil })
	count := func(s *scope.Scope, n int, now time.Time) (written int) {
		for range n {
			if recorder.try(t.Context(), testRequest, s, outcome.BuildEvent(s, "Ready", "", now), now) == "written" {
				written++
			}
		}
		return written
	}
	s, other := fixture.NewScope(), fixture.NewScope()
	other.Placement.Owner.UID = "another"
	got := []int{count(s, 100, fixture.Now), count(other, 1, fixture.Now), count(s, 100, fixture.Now.Add(2*eventInterval))}
	if diff := cmp.Diff([]int{eventBurst, 1, 2}, got); diff != "" {
		t.Errorf("written at once, of another instance, and later (-want +got):\n%s", diff)
	}
}

func TestAnEventsNameFitsHoweverLongTheInstancesIs(t *testing.T) {
	if got := outcome.EventNamePrefix(strings.Repeat("a", 253)); len(got) > 253-len("12345") {
		t.Errorf("%d characters", len(got))
	}
}
