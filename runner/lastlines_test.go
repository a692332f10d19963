// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package runner

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbar-dev/sandbar/runner/ringlog"
)

func TestTheLastLinesAreFewAndShort(t *testing.T) {
	ring := ringlog.New(1 << 16)
	for _, step := range []struct {
		writes string
		want   []string
	}{
		{"", nil},
		{"a\n\n  b  \n", []string{"a", "b"}},
		{"1\n2\n3\n4\n5\n6\n7\n", []string{"3", "4", "5", "6", "7"}},
		{strings.Repeat("x", 1000) + "\n", []string{"4", "5", "6", "7", strings.Repeat("x", lastLineBytes)}},
		{"\xff\xfe broken\n", []string{"5", "6", "7", strings.Repeat("x", lastLineBytes), "broken"}},
	} {
		ring.Append(ringlog.Source{Stream: ringlog.Stderr, Attempt: 1}, time.Now(), []byte(step.writes))
		if diff := cmp.Diff(step.want, lastLines(ring)); diff != "" {
			t.Errorf("after %q (-want +got):\n%s", step.writes, diff)
		}
	}
}
