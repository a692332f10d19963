// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
)

// memoryMax is where a container finds how much memory it may have (cgroup v2).
var memoryMax = "/sys/fs/cgroup/memory.max"

// memoryPercent is how much of that Go's runtime may have. The rest is for what it does not count: the program itself and
// what the kernel holds for its connections.
const memoryPercent = 90

// limitMemory has Go collect garbage more often before the container's limit is reached, by which the kernel would kill the
// process and all its connections. It returns the limit in bytes; 0 if there is none, or if an operator has set GOMEMLIMIT,
// who knows better.
func limitMemory() (int64, error) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return 0, nil
	}
	content, err := os.ReadFile(memoryMax)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("reading the limit of memory: %w", err)
	}
	limit, err := limitOf(strings.TrimSpace(string(content)))
	if err != nil || limit == 0 {
		return 0, err
	}
	debug.SetMemoryLimit(limit)
	return limit, nil
}

// limitOf returns the limit for what a cgroup may have; 0 for one without a bound.
func limitOf(most string) (int64, error) {
	if most == "max" {
		return 0, nil
	}
	bytes, err := strconv.ParseInt(most, 10, 64)
	if err != nil || bytes <= 0 {
		return 0, fmt.Errorf("the limit of memory in %s is not a number of bytes: %q", memoryMax, most)
	}
	return bytes / 100 * memoryPercent, nil
}
