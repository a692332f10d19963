// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import "testing"

func TestThingsAreCounted(t *testing.T) {
	for n, want := range map[int]string{0: "0 files", 1: "1 file", 2: "2 files"} {
		if got := Counted(n, "file"); got != want {
			t.Errorf("%d files are %q", n, got)
		}
	}
}
