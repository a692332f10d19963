// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package copyup

import (
	"fmt"
	"testing"

	copywire "github.com/sandbar-dev/sandbar/apis/wire/copy"
	"github.com/sandbar-dev/sandbar/pkg/limitstable"
)

func TestTheTableOfLimitsHasThoseOfACopy(t *testing.T) {
	l := DefaultLimits()
	if l.PathBytes != l.TargetBytes {
		t.Errorf("the table has one row for paths of %d bytes and targets of %d", l.PathBytes, l.TargetBytes)
	}
	says := func(format string, n int64) []string { return []string{fmt.Sprintf(format, n)} }
	limitstable.Check(t, "../../docs/limits.md", "Copying the files of an image", true,
		limitstable.Limit{Name: "files, symbolic links and directories", Number: limitstable.Count(l.Entries), Says: says("more than %d files", l.Entries)},
		limitstable.Limit{Name: "names of files with several names (hard links)", Number: limitstable.Count(l.Linked), Says: says("more than %d names", l.Linked)},
		limitstable.Limit{Name: "directories that lead to a file", Number: limitstable.Count(int64(l.Depth)), Says: says("more than %d directories", int64(l.Depth))},
		limitstable.Limit{Name: "a path, and the target of a symbolic link", Number: limitstable.Count(int64(l.PathBytes)) + " bytes", Says: says("more than %d bytes", int64(l.PathBytes))},
		limitstable.Limit{Name: "the volume", Number: "its size, and its inodes"},
		limitstable.Limit{
			Name: "paths that the result lists, of what could not be read and of mounts", Number: limitstable.Count(copywire.MaxListed) + " each",
			Says: []string{"more than " + limitstable.Count(copywire.MaxBytes) + " bytes"},
		},
	)
}
