// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// Limits of a quarantine: it is a place to be mended from, not to be forgotten in.
const (
	mostQuarantined = 5
	quarantineEnds  = 14 * 24 * time.Hour
)

// readQuarantine returns why each test of a quarantine is in it, by name. A line of the file is a test's name, the
// day on which it was put there and why; lines that begin with # are comments.
func readQuarantine(path string, now time.Time) (map[string]string, error) {
	if path == "" {
		return nil, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the quarantine: %w", err)
	}
	why := map[string]string{}
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		words := strings.Fields(line)
		if len(words) < 3 {
			return nil, fmt.Errorf("%s: %q is not a test, a day and a reason", path, line)
		}
		day, err := time.Parse(time.DateOnly, words[1])
		if err != nil {
			return nil, fmt.Errorf("%s: the day of %s: %w", path, words[0], err)
		}
		if now.Sub(day) > quarantineEnds {
			return nil, fmt.Errorf("%s: %s is in quarantine since %s, more than %d days: mend it, or take it out", path, words[0], words[1], quarantineEnds/(24*time.Hour))
		}
		why[words[0]] = strings.Join(words[2:], " ")
	}
	if len(why) > mostQuarantined {
		return nil, fmt.Errorf("%s: %d tests are in quarantine, more than %d", path, len(why), mostQuarantined)
	}
	return why, nil
}

// excuse marks failed tests that are in quarantine, and returns the others.
func excuse(tests []*result, why map[string]string) []*result {
	return slices.DeleteFunc(tests, func(r *result) bool {
		reason, ok := why[r.Test]
		if ok {
			r.Outcome, r.Why = quarantined, reason+": "+r.reason()
		}
		return ok
	})
}
