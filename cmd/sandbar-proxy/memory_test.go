// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
)

func TestTheMemoryLimitIsThatOfTheContainer(t *testing.T) {
	before, file := debug.SetMemoryLimit(-1), memoryMax
	t.Cleanup(func() { debug.SetMemoryLimit(before); memoryMax = file })
	for name, c := range map[string]struct {
		content, environment string
		want                 int64
		refused              bool
	}{
		"a limit":                   {"268435456\n", "", 268435400 / 100 * 90, false},
		"none":                      {"max\n", "", 0, false},
		"no cgroup":                 {"", "", 0, false},
		"GOMEMLIMIT":                {"268435456\n", "1GiB", 0, false},
		"not a number":              {"much\n", "", 0, true},
		"a number below zero":       {"-1\n", "", 0, true},
		"a number that is too long": {strings.Repeat("9", 20), "", 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			debug.SetMemoryLimit(math.MaxInt64)
			t.Setenv("GOMEMLIMIT", c.environment)
			memoryMax = filepath.Join(t.TempDir(), "memory.max")
			if c.content != "" {
				if err := os.WriteFile(memoryMax, []byte(c.content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got, err := limitMemory()
			if got != c.want || (err != nil) != c.refused {
				t.Errorf("the limit is %d, %v, want %d", got, err, c.want)
			}
			set := debug.SetMemoryLimit(-1)
			if c.want == 0 && set != math.MaxInt64 || c.want != 0 && set != c.want {
				t.Errorf("set is %d, want %d", set, c.want)
			}
		})
	}
}
