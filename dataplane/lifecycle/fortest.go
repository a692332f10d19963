// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"time"

	"github.com/sandbar-dev/sandbar/pkg/inuse"
)

// UseForTest is a use that began at a moment and is covered for some time.
func UseForTest(start time.Time, covered time.Duration) *Use {
	u := &Use{base: start}
	u.covered.Store(&inuse.Coverage{From: start, For: covered})
	return u
}
