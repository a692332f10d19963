// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"slices"

	"github.com/sandbar-dev/sandbar/dataplane/access"
)

// LineOfForTest is who the line of a request counts for.
func (a *Auditor) LineOfForTest(o *Outcome) access.CallerKey { return a.lineOf(o) }

// DropReasons are those for which a line is not written, as the metric names them.
func DropReasons() []string { return slices.Clone(auditDropReasons) }
