// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
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
	quota := eventOf(0, "ReplicaSet", "app", "FailedCreate", "is forbidden: exceeded quota: sandbar")
	quota.Namespace, quota.Name = newScope().id.Namespace(), "a"
	starting := map[string]any{"state": "IN_PROGRESS", "conditions": []any{kroCondition("Ready", "False", 1, "waits")}}
	up, broken := podOf("a", running(time.Hour, true, 0)), podOf("a", waitingFor("ErrImagePull", ""))
	for name, test := range map[string]struct {
		kro     map[string]any
		pods    []client.Object
		unready time.Duration // for how long
		suspend bool
		asked   int
		again   time.Duration
		finding string
	}{
		"ready":                             {kro: kroReady(1), pods: []client.Object{&up}, unready: time.Hour},
		"not ready for a moment":            {kro: starting, again: quietTime},
		"not ready for longer":              {kro: starting, unready: 5 * time.Second, asked: 1, again: 5 * time.Second, finding: reasonQuota},
		"not ready for long":                {kro: starting, unready: time.Hour, asked: 1, again: lookMost, finding: reasonQuota},
		"a pod tells":                       {kro: starting, pods: []client.Object{&broken}, unready: time.Hour},
		"suspended: volumes are looked for": {kro: starting, suspend: true, unready: time.Hour, asked: 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, append(test.pods, &quota)...)
			w.now = func() time.Time { return testNow }
			live := &lookups{Reader: w.runtime}
			r := w.reconciler()
			r.runtime.live = live
			s := newScope()
			s.decided = true
			if test.suspend {
				s.decision.suspended = "ByUser"
			}
			if test.unready > 0 {
				s.object.Object["status"] = map[string]any{"conditions": []any{map[string]any{
					"type": "Ready", "status": "False", "reason": "R", "message": "m",
					"lastTransitionTime": testNow.Add(-test.unready).Format(time.RFC3339),
				}}}
			}
			o := outcome{instance: kroInstance(test.kro)}
			again, err := r.observe(t.Context(), s, &o)
			if err != nil || again != test.again || live.asked != test.asked {
				t.Errorf("asked %d times, again in %v, error %v", live.asked, again, err)
			}
			found := ""
			if o.finding != nil {
				found = o.finding.reason
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
	w.inCache = w.inKCP.DeepCopy()
	r := w.reconciler()
	broken := errors.New("connection refused")
	r.runtime.live = &lookups{Reader: w.runtime, err: broken}
	if _, err := r.Reconcile(t.Context(), testRequest); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
	if got := conditionOf(t, w.inKCP, "Suspended").Reason; got != "ByUser" {
		t.Errorf("Suspended has the reason %s", got)
	}
}

func TestVolumesAreCountedAsKept(t *testing.T) {
	claim := &corev1.PersistentVolumeClaim{}
	claim.Namespace, claim.Name = newScope().id.Namespace(), "data"
	for name, test := range map[string]struct {
		objects []client.Object
		want    bool
	}{
		"with a volume": {[]client.Object{claim}, true},
		"without":       {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, test.objects...)
			s := newScope()
			s.decided, s.decision.suspended = true, "ByUser"
			o := outcome{instance: kroInstance(nil)}
			if _, err := w.reconciler().observe(t.Context(), s, &o); err != nil || o.volumes != test.want {
				t.Errorf("volumes: %v, %v", o.volumes, err)
			}
		})
	}
}
