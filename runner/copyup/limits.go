// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package copyup

import (
	"fmt"

	copywire "github.com/sandbar-dev/sandbar/apis/wire/copy"
)

// Limits bound the tree that is copied. One that has more is refused before anything is copied.
type Limits struct {
	// Entries bounds files, symbolic links and directories together. Default 1,000,000.
	Entries int64
	// Linked bounds the names of files that have several (hard links). Default 250,000.
	Linked int64
	// Depth bounds how many directories lead to a file. Default 128.
	Depth int
	// PathBytes bounds a path, relative to the source. Default 4,095, as much as Linux opens.
	PathBytes int
	// TargetBytes bounds where a symbolic link leads. Default 4,095, as much as Linux keeps.
	TargetBytes int
}

// DefaultLimits returns the limits of the command.
func DefaultLimits() Limits {
	return Limits{Entries: 1_000_000, Linked: 250_000, Depth: 128, PathBytes: 4095, TargetBytes: 4095}
}

// refusal is an error with a reason of its own.
type refusal struct {
	reason  copywire.Reason
	message string
}

func (r *refusal) Error() string { return r.message }

func refuse(reason copywire.Reason, format string, args ...any) error {
	return &refusal{reason, fmt.Sprintf(format, args...)}
}

func tooLarge(format string, args ...any) error {
	return refuse(copywire.TreeTooLarge, format, args...)
}

func longTarget(path string, limits Limits) error {
	return tooLarge("the target of the symbolic link %q has more than %d bytes", path, limits.TargetBytes)
}

// size writes a number of bytes as people read it.
func size(n int64) string {
	const step = 1024
	if n < step {
		return fmt.Sprintf("%d bytes", n)
	}
	value, unit := float64(n), ""
	for _, unit = range []string{"KiB", "MiB", "GiB", "TiB"} {
		if value /= step; value < step {
			break
		}
	}
	return fmt.Sprintf("%.1f %s", value, unit)
}
