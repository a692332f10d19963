// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package golden compares what a test made with a file that shows it in a review.
package golden

import (
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files again")

// Check fails the test if the file, below the test's folder, holds something else than got. With
// the test's flag -update it writes the file instead.
func Check(t testing.TB, file string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s differs: check the change and run the test with -update (-want +got):\n%s", file, diff)
	}
}
