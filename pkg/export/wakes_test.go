// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package export

import (
	"slices"
	"testing"
)

func TestAWakeReachesTheControllerOfItsKind(t *testing.T) {
	var wakes Wakes
	var woken []string
	thing, patient, other := wakes.For("Thing", false), wakes.For("Thing", true), wakes.For("Other", false)
	thing(web) // nobody hears it yet
	wakes.Add("Thing", func(key Key, mayWait bool) {
		if mayWait {
			woken = append(woken, key.Name+" may wait")
			return
		}
		woken = append(woken, key.Name)
	})
	thing(web)
	patient(web)
	other(web)
	if want := []string{"web", "web may wait"}; !slices.Equal(woken, want) {
		t.Errorf("woken were %v, want %v", woken, want)
	}
}
