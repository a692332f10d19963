// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package runner

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbar-dev/sandbar/runner/ringlog"
)

func TestTheRunnerWritesTheLogOfTheGoldenFile(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	first, second := ringlog.Source{Stream: ringlog.Stdout, Attempt: 1}, ringlog.Source{Stream: ringlog.Stderr, Attempt: 1}
	text := appendRecords(nil, &ringlog.Batch{Entries: []ringlog.Entry{
		{Offset: 0, Time: at, Source: first, Data: []byte("héllo \"world\"\n")},
		{Offset: 15, Time: at.Truncate(time.Second).Add(time.Second), Source: second, Data: []byte{0xff, 0, '\n'}},
	}})
	text = appendRecords(text, &ringlog.Batch{Lost: 4078, First: 4096, Entries: []ringlog.Entry{{
		Offset: 4096, Time: at.Truncate(time.Second).Add(2 * time.Second),
		Source: ringlog.Source{Stream: ringlog.Stdout, Attempt: 2}, Data: []byte("\x1b[1mhalf"),
	}}})
	if diff := cmp.Diff(goldenOf(t, "log", "records.ndjson")+"\n", string(text)); diff != "" {
		t.Errorf("records (-golden +got):\n%s", diff)
	}
}
