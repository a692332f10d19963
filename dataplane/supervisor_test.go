// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sandbar-dev/sandbar/dataplane/refusal"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// All of it ends before the first look at a right, for which there is nobody to ask here.
func TestARequestEndsAtItsLimitsInTime(t *testing.T) {
	const patience, longest = 5 * time.Second, 10 * time.Second
	for name, c := range map[string]struct {
		during func(*supervisor)
		cause  string
		after  time.Duration
	}{
		"a pod that does not begin its answer": {func(*supervisor) {}, refusal.CauseTimeout, patience},
		"a pod that still gets the request": {func(c *supervisor) {
			time.Sleep(3 * time.Second)
			c.Progress()
		}, refusal.CauseTimeout, 3*time.Second + patience},
		"a pod that is asked after a waking": {func(c *supervisor) {
			c.answered()
			time.Sleep(3 * time.Second)
			c.patience = time.Second
			c.asked(time.Now())
		}, refusal.CauseTimeout, 4 * time.Second},
		"a pod that has answered": {func(c *supervisor) { c.answered() }, refusal.CauseStreamCeiling, longest},
		// A long answer to a body that is still on its way was cut once.
		"a pod that gets more of the request after it has answered": {func(c *supervisor) {
			c.answered()
			c.Progress()
		}, refusal.CauseStreamCeiling, longest},
		"a pod that does not answer while kcp is being asked": {func(c *supervisor) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.checking = true
		}, refusal.CauseTimeout, patience},
		"a stream at its ceiling while kcp is being asked": {func(c *supervisor) {
			c.answered()
			c.mu.Lock()
			defer c.mu.Unlock()
			c.checking = true
		}, refusal.CauseStreamCeiling, longest},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				start := time.Now()
				s := &supervisor{
					h: &handler{live: newLive(nil)}, x: &exchange{}, ctx: ctx, cancel: cancel, patience: patience,
					longest: longest, ceiling: start.Add(longest),
				}
				s.answerBy.Store(start.Add(patience).UnixNano())
				s.begin(start)
				defer s.stop()
				c.during(s)
				<-ctx.Done()
				if cut := refusal.CauseOf(ctx); cut == nil || cut.Cause != c.cause || time.Since(start) != c.after {
					t.Errorf("cut by %v after %v, want %s after %v", cut, time.Since(start), c.cause, c.after)
				}
			})
		})
	}
}

func TestLiveFindsThoseWhoAreUnderWay(t *testing.T) {
	l := newLive(nil)
	at := func(cluster string, uid types.UID) *supervisor {
		c := &supervisor{owner: placement.Owner{Cluster: cluster, UID: uid}}
		l.add(c)
		return c
	}
	a, b, c, d := at("one", "a"), at("one", "b"), at("one", "c"), at("two", "d")
	for _, step := range []struct {
		name   string
		remove *supervisor
		left   []types.UID
	}{
		{"all of a cluster", nil, []types.UID{"c", "b", "a"}},
		{"without one in the middle", b, []types.UID{"c", "a"}},
		{"without the first", c, []types.UID{"a"}},
		{"without the last", a, nil},
	} {
		if step.remove != nil {
			l.remove(step.remove)
		}
		var found []types.UID
		for _, s := range l.of("one", "") {
			found = append(found, s.owner.UID)
		}
		if diff := cmp.Diff(step.left, found); diff != "" {
			t.Errorf("%s: %s", step.name, diff)
		}
	}
	if len(l.of("two", "d")) != 1 || len(l.of("two", "a")) != 0 {
		t.Error("one instance of a cluster is not told from the others")
	}
	l.remove(d)
	if len(l.clusters) != 0 {
		t.Errorf("left in memory: %v", l.clusters)
	}
}
