// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package devsync

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandbar-dev/sandbar/pkg/limitstable"
)

func TestTheTableOfLimitsOfFilesHasTheNumbersOfSync(t *testing.T) {
	limitstable.Check(t, "../../docs/limits.md", "Files", false,
		limitstable.Limit{Name: "a request (`bodyBytes` above)", Number: "64 MiB", Says: []string{"parts of " + limitstable.Bytes(partBytes), "down to " + limitstable.Bytes(MinPartBytes)}},
		limitstable.Limit{Name: "content of a batch, without staged content (`SANDBAR_MAX_BATCH_BYTES`)", Number: "2 GiB", Says: []string{"more than " + limitstable.Bytes(maxBatchBytes)}},
		limitstable.Limit{Name: "the beginning of a file that is received, of " + limitstable.Bytes(keptBytes) + " and more", Number: limitstable.Duration(keptFor) + ", of a sync"},
		limitstable.Limit{
			Name: "what git lists as tracked although ignored, and the time that it takes", Number: limitstable.Bytes(maxTracked) + ", " + limitstable.Duration(gitTime),
			Says: []string{"the answer has more than " + limitstable.Bytes(maxTracked)},
		},
		limitstable.Limit{
			Name: "submodules that git is asked about, with those in them", Number: limitstable.Count(maxSubmodules),
			Says: []string{fmt.Sprintf("there are more than %d submodules", maxSubmodules)},
		},
		limitstable.Limit{Name: "comparisons of both sides in one sync", Number: limitstable.Count(maxRounds), Says: []string{fmt.Sprintf("after %d rounds", maxRounds)}},
	)
}

func TestAnAnswerOfGitAboveTheLimitIsAnErrorThatNamesIt(t *testing.T) {
	out := bounded{&bytes.Buffer{}, maxTracked}
	half := make([]byte, maxTracked/2)
	for range 2 {
		if _, err := out.Write(half); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := out.Write(half[:1]); err == nil || !strings.Contains(err.Error(), "more than "+limitstable.Bytes(maxTracked)) {
		t.Errorf("it says %v", err)
	}
}

func TestMoreSubmodulesThanTheLimitAreAnErrorThatNamesIt(t *testing.T) {
	top := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "git", "init", "-q", filepath.Join(top, "sub")).CombinedOutput(); err != nil {
		t.Fatalf("git init: %v: %s", err, out)
	}
	for n, want := range map[int]string{2: "", 3: fmt.Sprintf("there are more than %d submodules", maxSubmodules)} {
		var modules strings.Builder
		for i := range n {
			fmt.Fprintf(&modules, "[submodule \"%d\"]\n\tpath = sub\n", i)
		}
		if err := os.WriteFile(filepath.Join(top, ".gitmodules"), []byte(modules.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		left := 2 // of maxSubmodules
		if _, err := trackedBySubmodules(t.Context(), top, top, &left); (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("of %d submodules it says %v", n, err)
		}
	}
}
