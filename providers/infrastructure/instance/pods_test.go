// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/fixture"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/lifecycle"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
)

// lookups counts how often the API server is asked for lists.
type lookups struct {
	client.Reader
	asked int
	err   error
}

func (l *lookups) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	l.asked++
	if l.err != nil {
		return l.err
	}
	return l.Reader.List(ctx, list, opts...)
}

func TestTheEventsAreReadOnlyWhenNothingElseTellsTheCause(t *testing.T) {
	quota := fixture.EventOf(0, "ReplicaSet", "app", "FailedCreate", "is forbidden: exceeded quota: sandbar")
	quota.Namespace, quota.Name = fixture.NewScope().Placement().Namespace(), "a"
	starting := map[string]any{"state": "IN_PROGRESS", "conditions": []any{fixture.KroCondition("Ready", "False", 1, "waits")}}
	up, broken := fixture.PodOf("a", fixture.Running(time.Hour, true, 0)), fixture.PodOf("a", fixture.WaitingFor("ErrImagePull", ""))
	for name, test := range map[string]struct {
		kro     map[string]any
		pods    []client.Object
		unready time.Duration // for how long
		suspend bool
		asked   int
		again   time.Duration
		finding string
	}{
		"ready":                             {kro: fixture.KroReady(1), pods: []client.Object{&up}, unready: time.Hour},
		"not ready for a moment":            {kro: starting, again: quietTime},
		"not ready for longer":              {kro: starting, unready: 5 * time.Second, asked: 1, again: 5 * time.Second, finding: outcome.ReasonQuota},
		"not ready for long":                {kro: starting, unready: time.Hour, asked: 1, again: lookMost, finding: outcome.ReasonQuota},
		"a pod tells":                       {kro: starting, pods: []client.Object{&broken}, unready: time.Hour},
		"suspended: volumes are looked for": {kro: starting, suspend: true, unready: time.Hour, asked: 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, append(test.pods, &quota)...)
			w.now = func() time.Time { return fixture.Now }
			live := &lookups{Reader: w.runtime}
			r := w.reconciler()
			r.runtime.live = live
			s := fixture.NewScope()
			if test.unready > 0 {
				s = fixture.Reporting(t, s, map[string]any{"conditions": []any{map[string]any{
					"type": "Ready", "status": "False", "reason": "R", "message": "m",
					"lastTransitionTime": fixture.Now.Add(-test.unready).Format(time.RFC3339),
				}}})
			}
			o := outcome.Outcome{Instance: fixture.KroInstance(test.kro), Plan: outcome.Plan{Decided: true}}
			if test.suspend {
				o.Plan.Suspended = "ByUser"
			}
			seen, err := r.observe(t.Context(), s, o)
			if err != nil || seen.Recheck != test.again || live.asked != test.asked {
				t.Errorf("asked %d times, again in %v, error %v", live.asked, seen.Recheck, err)
			}
			found := ""
			if seen.Finding != nil {
				found = seen.Finding.Reason
			}
			if found != test.finding {
				t.Errorf("found %q", found)
			}
		})
	}
}

func TestAFailedLookIsTriedAgainAndKeepsNothingFromBeingTold(t *testing.T) {
	w := newWorld(t)
	w.settle()
	w.change(true, "suspended")
	r := w.reconciler()
	broken := errors.New("connection refused")
	r.runtime.live = &lookups{Reader: w.runtime, err: broken}
	if _, err := r.Reconcile(t.Context(), testRequest); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
	if got := fixture.ConditionOf(t, w.inKCP, "Suspended").Reason; got != "ByUser" {
		t.Errorf("Suspended has the reason %s", got)
	}
}

func TestVolumesAreCountedAsKept(t *testing.T) {
	claim := &corev1.PersistentVolumeClaim{}
	claim.Namespace, claim.Name = fixture.NewScope().Placement().Namespace(), "data"
	for name, test := range map[string]struct {
		objects []client.Object
		want    bool
	}{
		"with a volume": {[]client.Object{claim}, true},
		"without":       {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, test.objects...)
			s := fixture.NewScope()
			o := outcome.Outcome{Instance: fixture.KroInstance(nil), Plan: outcome.Plan{Decided: true, Decision: lifecycle.Decision{Suspended: "ByUser"}}}
			if seen, err := w.reconciler().observe(t.Context(), s, o); err != nil || seen.Volumes != test.want {
				t.Errorf("volumes: %v, %v", seen.Volumes, err)
			}
		})
	}
}

// Volumes come after the first status of an instance that is suspended from the start.
func TestVolumesThatComeLaterAreCountedAsKept(t *testing.T) {
	w := newWorld(t)
	w.change(true, "suspended")
	w.settle()
	claim := &corev1.PersistentVolumeClaim{}
	claim.Namespace, claim.Name = w.id().Namespace(), "data"
	if err := w.runtime.Create(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	w.kroSays(fixture.KroReady(w.kroInstance().GetGeneration()))
	w.settle()
	status, err := outcome.ReadStatus(w.inKCP)
	if err != nil {
		t.Fatal(err)
	}
	if status.Suspension == nil || !slices.Contains(status.Suspension.Kept, outcome.KeptVolumes) {
		t.Errorf("suspension is %+v", status.Suspension)
	}
}
