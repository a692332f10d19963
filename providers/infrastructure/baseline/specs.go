// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package baseline

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// specs tells of Baselines whose specs come, change or go. What is found on the runtime cluster changes more often, and is of
// no concern to those who read specs.
type specs struct {
	changed func()

	mu   sync.Mutex
	seen map[string]seenSpec
}

// seenSpec is which spec of a Baseline was told of.
type seenSpec struct {
	uid        types.UID
	generation int64
	deleting   bool
}

func newSpecs(changed func()) *specs { return &specs{changed: changed, seen: map[string]seenSpec{}} }

// look notes a Baseline as it is; nil if there is none of the name.
func (s *specs) look(name string, b *sandbarv1alpha1.Baseline) {
	s.mu.Lock()
	before, had := s.seen[name]
	var now seenSpec
	if b == nil {
		delete(s.seen, name)
	} else {
		now = seenSpec{b.UID, b.Generation, !b.DeletionTimestamp.IsZero()}
		s.seen[name] = now
	}
	s.mu.Unlock()
	if had != (b != nil) || before != now {
		s.changed()
	}
}
