// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package top

import (
	"context"
	"slices"
	"sync"
	"testing"
)

func TestAMailboxHandsAllOnInOrder(t *testing.T) {
	m := newMailbox[int](0)
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for i := range 250 {
				m.put(w*1000 + i)
			}
		})
	}
	go func() {
		writers.Wait()
		m.close()
	}()
	var got []int
	for more := true; more; {
		var items []int
		items, _, more = m.take(t.Context())
		got = append(got, items...)
	}
	for w := range 4 {
		var of []int
		for _, n := range got {
			if n/1000 == w {
				of = append(of, n)
			}
		}
		if len(of) != 250 || !slices.IsSorted(of) {
			t.Errorf("of writer %d there are %d, sorted: %t", w, len(of), slices.IsSorted(of))
		}
	}
}

func TestAFullMailboxDropsTheOldest(t *testing.T) {
	m := newMailbox[int](3)
	m.put(1, 2)
	m.put(3, 4, 5)
	items, dropped, more := m.take(t.Context())
	if !slices.Equal(items, []int{3, 4, 5}) || dropped != 2 || !more {
		t.Errorf("%v after %d, more: %t", items, dropped, more)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, more := m.take(ctx); more {
		t.Error("it goes on after the context has ended")
	}
}
