// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/fixture"
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
