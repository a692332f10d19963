// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package runner

import (
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// modTime is in listings and changes, and the workspace says what it is.
var modTime = regexp.MustCompile(`"modTime":"[^"]*"`)

// golden compares an answer with a golden file of apis/wire/sync, which clients are tested against too.
func (s *sandbox) golden(name, answer string) {
	s.t.Helper()
	answer = modTime.ReplaceAllString(strings.TrimSpace(answer), `"modTime":"2026-01-02T03:04:05Z"`)
	if diff := cmp.Diff(goldenOf(s.t, "sync", name), answer); diff != "" {
		s.t.Errorf("%s (-golden +got):\n%s", name, diff)
	}
}

// One workspace goes through the batches of the golden files, in this order.
func TestTheRunnerTakesBatchesAndAnswersAsTheGoldenFilesDo(t *testing.T) {
	s := startSandbox(t, "", nil)
	for _, step := range []struct {
		batch, reply string
		status       int
	}{
		{"batch.golden", "reply.json", 200},
		{"batch-delta.golden", "reply-delta.json", 200},
		{"batch-conflict.golden", "error-conflict.json", 409},
		{"batch-stage.golden", "reply-staged.json", 200},
	} {
		response := s.postFrames(strings.NewReader(goldenOf(t, "sync", step.batch) + "\n"))
		text, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil || response.StatusCode != step.status {
			t.Fatalf("%s: %d %s, %v", step.batch, response.StatusCode, text, err)
		}
		s.golden(step.reply, string(text))
	}
	for path, name := range map[string]string{
		"/files?exclude=empty": "listing.ndjson", "/files/b.ts?chunks": "chunks.json", "/files/none": "error-not-found.json",
		"/files?staged=2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae": "staged.json",
	} {
		_, text := s.call("GET", path, "")
		s.golden(name, text)
	}
}
