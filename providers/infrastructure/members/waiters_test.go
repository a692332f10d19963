// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package members

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/fixture"
)

func TestWaitersAreServedInTheOrderInWhichTheyCame(t *testing.T) {
	w := newWaiters()
	var woken []string
	me := func(name string, second int) waiter {
		return waiter{
			req:     export.Key{Cluster: "c", NamespacedName: types.NamespacedName{Namespace: "n", Name: name}},
			created: fixture.Now.Add(time.Duration(second) * time.Second), wake: func() { woken = append(woken, name) },
		}
	}
	wakes := func(what string, do func(), want ...string) {
		t.Helper()
		woken = nil
		do()
		if diff := cmp.Diff(want, woken); diff != "" {
			t.Errorf("%s wakes (-want +got):\n%s", what, diff)
		}
	}
	first, second, third, other := me("z-first", 1), me("b-second", 2), me("c-third", 2), me("other", 0)
	for _, x := range []waiter{third, second, first} {
		w.join("key", x)
	}
	w.join("another key", other)
	wakes("a member", func() { w.offer("key") }, "z-first")
	wakes("a member of which nobody wants one", func() { w.offer("no such key") })
	for x, want := range map[*waiter]int{&first: 0, &second: 1, &third: 2, &other: 0} {
		if got := w.ahead("key", *x); got != want {
			t.Errorf("%d are ahead of %s, want %d", got, x.req.Name, want)
		}
	}
	if got := w.ahead("key", me("late", 9)); got != 3 {
		t.Errorf("%d are ahead of one that does not wait, want 3", got)
	}
	wakes("the first, which goes,", func() { w.leave(first.req) }, "b-second")
	wakes("one that goes twice", func() { w.leave(first.req) })
	w.join("another key", second)
	wakes("a member that the second does not want any more", func() { w.offer("key") }, "c-third")
	wakes("one that goes from the other line", func() { w.leave(other.req) }, "b-second")
	w.leave(second.req)
	w.leave(third.req)
	if len(w.keys) > 0 || len(w.queue) > 0 {
		t.Errorf("%v and %v are left", w.keys, w.queue)
	}
}
