// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"testing"
	"time"
)

func TestAPageThatGoesOnBeingPassingIsLoadedMoreAndMoreRarely(t *testing.T) {
	pages, now, least := newReloads(), time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC), 3*time.Second
	var waits []time.Duration
	for range 20 {
		wait := pages.after("a.example", least, now)
		if len(waits) > 0 && wait < waits[len(waits)-1] {
			t.Fatalf("after %v it is loaded again in %v", waits, wait)
		}
		waits = append(waits, wait)
		now = now.Add(wait)
	}
	if waits[0] != least || waits[19] != reloadMost {
		t.Errorf("the waits are %v, want from %v to %v", waits, least, reloadMost)
	}
	if wait := pages.after("b.example", least, now); wait != least {
		t.Errorf("another preview's page is loaded again in %v", wait)
	}
	if wait := pages.after("a.example", time.Minute, now); wait != time.Minute {
		t.Errorf("one that must not be asked for a minute is in %v", wait)
	}
	if wait := pages.after("a.example", least, now.Add(2*reloadMost+time.Second)); wait != least {
		t.Errorf("the app was there meanwhile, and the page is loaded again in %v", wait)
	}
}
