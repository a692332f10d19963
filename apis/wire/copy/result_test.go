// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package copywire

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// results are the golden files of testdata, and what they mean.
func results() map[string]Result {
	return map[string]Result{
		"copied.json": {
			Reason: Copied, Message: "copied 5012 files of /app (40.0 MiB)", Files: 5012, Bytes: 41943040, Skipped: 2, Mounts: []string{"data"},
			Unreadable: 1, UnreadablePaths: []string{"etc/key"}, Seconds: 1.25,
		},
		"already.json": {Reason: AlreadyCopied, Message: "the volume has the files of an earlier copy; nothing was changed"},
		"small.json": {
			Reason:  VolumeTooSmall,
			Message: "the files below /app are 1.2 GiB, and the volume has 1.0 GiB: ask for a larger volume", Seconds: 0.5,
		},
	}
}

// The provider and a runner of another version read and write these bytes.
func TestResultsAreThoseOfTheGoldenFiles(t *testing.T) {
	for name, want := range results() {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("testdata", name))
			if err != nil {
				t.Fatal(err)
			}
			line, err := want.Encode()
			if diff := cmp.Diff(strings.TrimSuffix(string(text), "\n"), string(line)); err != nil || diff != "" {
				t.Errorf("written (-golden +got), %v:\n%s", err, diff)
			}
			got, err := Parse(text)
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("read (-want +got), %v:\n%s", err, diff)
			}
		})
	}
}

func TestReasonsAndTheirExitCodesAreThoseOfTheGoldenFile(t *testing.T) {
	golden, err := os.ReadFile("testdata/reasons.json")
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.MarshalIndent(exitCodes, "", "  ")
	if diff := cmp.Diff(string(golden), string(text)+"\n"); err != nil || diff != "" {
		t.Errorf("-golden +got, %v:\n%s", err, diff)
	}
	if got := Reason("OfALaterVersion").ExitCode(); got != 1 {
		t.Errorf("an unknown reason has the code %d", got)
	}
}

func TestAResultFitsIntoATerminationMessage(t *testing.T) {
	for name, letter := range map[string]string{"letters": "a", "control characters": "\x01", "bytes that are not text": "\xff", "of three bytes": "€"} {
		t.Run(name, func(t *testing.T) {
			r := Result{Reason: Copied, Message: strings.Repeat(letter, 5000), Unreadable: 1000, Skipped: 1000}
			for i := range 1000 {
				r.UnreadablePaths = append(r.UnreadablePaths, fmt.Sprintf("%d%s", i, strings.Repeat(letter, 1000)))
				r.Mounts = append(r.Mounts, fmt.Sprintf("%d%s", i, strings.Repeat(letter, 1000)))
			}
			text, err := r.Encode()
			if err != nil || len(text) > MaxBytes {
				t.Fatalf("%d bytes, %v", len(text), err)
			}
			got, err := Parse(text)
			if err != nil || got.Unreadable != 1000 || got.Skipped != 1000 || got.Reason != Copied {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

func TestShortPathsAreAllListed(t *testing.T) {
	r := Result{Reason: Copied}
	for i := range 30 {
		r.UnreadablePaths = append(r.UnreadablePaths, fmt.Sprintf("dir/file-%d", i))
	}
	text, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Parse(text); err != nil || len(got.UnreadablePaths) != MaxListed || got.UnreadablePaths[19] != "dir/file-19" {
		t.Errorf("got %q, %v", got.UnreadablePaths, err)
	}
}

func TestWhatIsNotAResultIsRefused(t *testing.T) {
	for name, text := range map[string]string{
		"not JSON":         "killed",
		"without a reason": `{"message":"x"}`,
		"too long":         `{"reason":"Copied","message":"` + strings.Repeat("x", MaxBytes) + `"}`,
		"empty":            "",
	} {
		if r, err := Parse([]byte(text)); err == nil {
			t.Errorf("%s: got %+v", name, r)
		}
	}
}
