// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package workspace

import (
	"testing"

	"github.com/sandbar-dev/sandbar/pkg/limitstable"
)

func TestTheTableOfLimitsOfFilesHasTheWorkspacesNumbers(t *testing.T) {
	limitstable.Check(t, "../../docs/limits.md", "Files", false,
		limitstable.Limit{Name: "a file that is read for its digest", Number: limitstable.Bytes(hashedBytes)},
		limitstable.Limit{Name: "large files whose digest a sync brought", Number: limitstable.Count(maxLarge)},
	)
}
