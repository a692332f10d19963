// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"fmt"
	"testing"
)

func TestOneWorkspaceLeavesTurnsToOthers(t *testing.T) {
	turns := newTurns(maxCleanings, maxWorkspaceCleanings)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	var done []func()
	take := func(workspace string, most int) {
		t.Helper()
		for n := range most + 1 {
			end, ok := turns.begin(over, workspace)
			if ok != (n < most) {
				t.Fatalf("turn %d of %s: %v", n, workspace, ok)
			}
			if ok {
				done = append(done, end)
			}
		}
	}
	for n := range maxCleanings / maxWorkspaceCleanings {
		take(fmt.Sprint("workspace", n), maxWorkspaceCleanings)
	}
	take("another", 0) // since all are taken
	waits := make(chan func())
	go func() {
		end, ok := turns.begin(t.Context(), "another")
		if !ok {
			t.Error("it has not waited")
		}
		waits <- end
	}()
	done[0]()
	(<-waits)()
	for _, end := range done[1:] {
		end()
	}
	if turns.all != 0 || len(turns.ofOne) != 0 {
		t.Errorf("at the end %d turns are taken, and %v", turns.all, turns.ofOne)
	}
}
