// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package gitignore

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestIgnoredFollowsTheManual(t *testing.T) {
	for _, tc := range []struct {
		name, dir, rules, path string
		isDir, want            bool
	}{
		{"a name matches at any depth", "", "node_modules", "a/b/node_modules", true, true},
		{"what is below an ignored directory is ignored", "", "node_modules", "node_modules/x/y.js", false, true},
		{"a slash in front anchors", "", "/build", "a/build", true, false},
		{"a slash in the middle anchors", "", "a/build", "x/a/build", true, false},
		{"a slash at the end means directories", "", "build/", "build", false, false},
		{"a slash at the end does not anchor", "", "build/", "x/build", true, true},
		{"one asterisk stays in a name", "", "a/*.js", "a/b/c.js", false, false},
		{"two asterisks cross directories", "", "a/**/c.js", "a/x/y/c.js", false, true},
		{"two asterisks match none as well", "", "a/**/c.js", "a/c.js", false, true},
		{"two asterisks at the end match what is inside", "", "a/**", "a", true, false},
		{"two asterisks behind the first plain characters cross directories as well", "", "a**/c", "ab/x/c", false, true},
		{"two asterisks behind another asterisk are as one", "", "*a**/c", "ab/x/c", false, false},
		{"the last pattern decides", "", "*.log\n!keep.log", "keep.log", false, false},
		{"nothing below an ignored directory comes back", "", "logs/\n!logs/keep", "logs/keep", false, true},
		{"a deeper file decides first", "a", "!x", "a/x", false, false},
		{"a pattern of a directory is relative to it", "a", "/x", "x", false, false},
		{"a comment is no pattern", "", "#x", "#x", false, false},
		{"an escaped number sign is a name", "", "\\#x", "#x", false, true},
		{"spaces at the end do not count", "", "x  ", "x", false, true},
		{"an escaped space counts", "", "x\\ ", "x ", false, true},
		{"line breaks of Windows do not count", "", "x\r\ny", "x", false, true},
		{"a bracket expression does not match a slash", "", "a[!b]c", "a/c", false, false},
		{"bytes, not characters", "", "?", "\u00e9", false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var r Rules
			r.Add(tc.dir, tc.rules)
			if got := r.Ignored(tc.path, tc.isDir); got != tc.want {
				t.Errorf("Ignored(%q) = %v with %q in %q", tc.path, got, tc.rules, tc.dir)
			}
		})
	}
}

func TestDefaultsDecideWhereNoFileDoes(t *testing.T) {
	var r Rules
	r.AddDefaults("*~\n*.swp\nbuild\n")
	r.AddDefaults("!keep~\n")
	r.Add("", "!*.swp\n")
	r.Add("a", "!build\n")
	for path, want := range map[string]bool{
		"x": false, "x~": true, "keep~": false, "a/b/x~": true, "x.swp": false, "a/x.swp": false, "build": true, "a/build": false, "b/build": true,
	} {
		if got := r.Ignored(path, false); got != want {
			t.Errorf("%s is ignored: %t, want %t", path, got, want)
		}
	}
	r.Reset("")
	if r.Ignored("a/build", false) || !r.Ignored("x.swp", false) {
		t.Error("Reset has to forget the patterns of one directory, and no defaults")
	}
}

func TestTheCaseOfLettersDoesNotCountWhereItIsFolded(t *testing.T) {
	for _, c := range []struct {
		rules, path  string
		plain, folds bool
	}{
		{"Build/\n", "build/x", false, true},
		{"*.LOG\n", "a.log", false, true},
		{"*.log\n!Keep.log\n", "KEEP.LOG", false, false},
		{"/src/Gen\n", "SRC/gen", false, true},
		{"[A-C]x\n", "bX", false, true},
		{"[[:upper:]]\n", "a", false, true},
		{"\u00c4.txt\n", "\u00e4.txt", false, false}, // only the letters of ASCII
	} {
		for fold, want := range map[bool]bool{false: c.plain, true: c.folds} {
			r := Rules{FoldCase: fold}
			r.Add("", c.rules)
			if got := r.Ignored(c.path, false); got != want {
				t.Errorf("%q with the rules %q, folded: %t: %t, want %t", c.path, c.rules, fold, got, want)
			}
		}
	}
}

// FuzzAgainstGit compares with git itself, on a real tree.
func FuzzAgainstGit(f *testing.F) {
	git, err := exec.LookPath("git")
	if err != nil {
		f.Fatal("git is not installed; it is the reference")
	}
	for _, seed := range [][2]string{
		{"*.log\n!a.log\n/b/\n", "c\n"},
		{"a/**/c\n**/b\n", "!c\n"},
		{"[a-c]?\n[!a]\n[[:alpha:]]b\n", ""},
		{"a/\n!a/b\n", "/b"},
		{"\\a\n\\", "a\\ "},
		{"a**b\n***\n", "**"},
		{"/*\n!/a\n/a/*\n!/a/b", ""},
		{"[]-a]\n[a-]\n[^/]", "[b"},
		{"a  \n b\n\\!a\n!", "/"},
		{"/**", "b/**/"},
		{"**/a/**/b", "*?*"},
		{"a**/a", "b**/c"},
		{"/a**/b\n!c/a**", "?**/c"},
		{"A\n*.LOG\n", "[A-C]C"},
		{"[B]\n[^A]*\n", "[[:upper:]]"},
	} {
		f.Add(seed[0], seed[1])
	}
	files := []string{"A", "B/A", "b/Bc", "Ab", "A.LOG", "a", "b/a", "b/b/c", "ab", "c/a/b", "c/ab/c", "a.log", "b/a.log", "a b", "#a", "!a", "c/b", "c/c/c/c", "aa/b", "-", "]", " b"}
	tree := f.TempDir()
	for _, name := range files {
		path := filepath.Join(tree, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o750), os.WriteFile(path, nil, 0o600)); err != nil {
			f.Fatal(err)
		}
	}
	if out, err := exec.Command(git, "-C", tree, "init", "-q").CombinedOutput(); err != nil {
		f.Fatalf("git init: %v: %s", err, out)
	}
	f.Fuzz(func(t *testing.T, root, below string) {
		if strings.ContainsAny(root+below, "\x00") || len(root)+len(below) > 200 {
			t.Skip("git reads such a file differently or not at all")
		}
		for dir, content := range map[string]string{"": root, "b": below} {
			if err := os.WriteFile(filepath.Join(tree, dir, ".gitignore"), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for _, fold := range []bool{false, true} {
			rules := Rules{FoldCase: fold}
			rules.Add("", root)
			rules.Add("b", below)
			ignored := gitSays(t, git, tree, fold, files)
			for _, name := range files {
				if got := rules.Ignored(name, false); got != ignored[name] {
					t.Errorf("%q, with core.ignoreCase %t: git says %v, we say %v; rules %q and in b %q", name, fold, ignored[name], got, root, below)
				}
			}
		}
	})
}

func gitSays(t *testing.T, git, tree string, fold bool, files []string) map[string]bool {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), git, "-c", "core.excludesFile=/dev/null", "-c", fmt.Sprintf("core.ignoreCase=%t", fold), "-C", tree, "check-ignore", "--no-index", "-z", "--stdin")
	cmd.Stdin = strings.NewReader(strings.Join(files, "\x00") + "\x00")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
		t.Fatalf("git check-ignore: %v: %s", err, stderr.String())
	}
	ignored := map[string]bool{}
	for name := range strings.SplitSeq(string(out), "\x00") {
		ignored[name] = true
	}
	return ignored
}
