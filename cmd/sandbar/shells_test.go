// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandbar-dev/sandbar/cmd/sandbar/clitest"
)

// completions are command lines as they are when a person presses the tab key, and what the shell makes of them.
var completions = map[string]string{
	"sandbar desc":                         "sandbar describe",
	"sandbar get sandboxse":                "sandbar get sandboxsets",
	"sandbar describe sandbox w":           "sandbar describe sandbox web",
	"sandbar get sbx/w":                    "sandbar get sbx/web",
	"sandbar logs w":                       "sandbar logs web",
	"sandbar exec sandboxrunner/a":         "sandbar exec sandboxrunner/app",
	"sandbar get sandboxes -n ot":          "sandbar get sandboxes -n other",
	"sandbar get sandboxes -o ya":          "sandbar get sandboxes -o yaml",
	"sandbar explain sandbox.spec.li":      "sandbar explain sandbox.spec.lifecycle",
	"sandbar delete sandbox --ignore-n":    "sandbar delete sandbox --ignore-not-found",
	"sandbar logs x --resource sandboxe":   "sandbar logs x --resource sandboxes.sandbar.dev",
	"sandbar get sandbox nothing-of-this":  "sandbar get sandbox nothing-of-this",
	"sandbar label sandbox web --overwr":   "sandbar label sandbox web --overwrite",
	"sandbar completion fi":                "sandbar completion fish",
	"sandbar get sandboxsets --context w ": "sandbar get sandboxsets --context w warm",
}

// shellOf returns a shell with the program on its PATH, in a workspace with a few objects.
func shellOf(t *testing.T, program string, args ...string) *exec.Cmd {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Skipf("%s is not installed, and the completion in it is not tried: make shells installs it", program)
	}
	w := newWorld(t)
	s := w.Stocked(t)
	clitest.WithSchema(t, s)
	for _, name := range []string{"default", "other"} {
		s.Put("namespaces", map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}})
	}
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	if err := os.Symlink(own, filepath.Join(home, "sandbar")); err != nil {
		t.Fatal(err)
	}
	shell := exec.CommandContext(t.Context(), path, args...)
	shell.Dir = home
	shell.Env = append(os.Environ(), clitest.AsSandbar+"=1", "KUBECONFIG="+w.Kubeconfig, "PATH="+home+":"+os.Getenv("PATH"), "HOME="+home, "ZDOTDIR="+home,
		"XDG_CONFIG_HOME="+home, "XDG_DATA_HOME="+home, "XDG_CACHE_HOME="+home, "TERM=xterm", "PS1=ready> ", "HISTFILE=", "EDITOR=")
	return shell
}

// A person presses the tab key in the shell itself, which runs the script of sandbar completion, and with it the program.
func TestTheTabKeyCompletesInBashAndZsh(t *testing.T) {
	for name, shell := range map[string]struct {
		args  []string
		setup string
	}{
		"bash": {[]string{"--norc", "--noprofile", "-i"}, "source /usr/share/bash-completion/bash_completion; source <(sandbar completion bash)"},
		"zsh":  {[]string{"-f", "-i"}, "bindkey -e; autoload -U compinit; compinit -u; source <(sandbar completion zsh)"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := os.Stat("/usr/share/bash-completion/bash_completion"); err != nil && name == "bash" {
				t.Skip("bash-completion is not installed, and the completion in bash is not tried: make shells installs it")
			}
			a := clitest.StartAtTerminal(t, shellOf(t, name, shell.args...))
			clitest.Await(t, a.Screen, "ready> ")
			a.Press(shell.setup + "; echo SET''UP\r")
			clitest.Await(t, a.Screen, "SETUP\r\n")
			n := 0
			for line, want := range completions {
				n++
				// The shell prints the line as it is then: Ctrl-A goes to its beginning. The echo of what is typed has the
				// quotes.
				a.Press(line + "\t")
				a.Press(fmt.Sprintf("\x01echo DO''NE%d: \r", n))
				if got := lineOn(t, a.Screen, fmt.Sprintf("DONE%d: ", n)); got != want {
					t.Errorf("%s: %q becomes %q, want %q", name, line, got, want)
				}
			}
		})
	}
}

// lineOn waits for a line that begins with a text, and returns what follows.
func lineOn(t *testing.T, screen *clitest.LockedBuffer, begin string) string {
	t.Helper()
	whole := regexp.MustCompile(regexp.QuoteMeta(begin) + `([^\r\n]*)\r`)
	for late := time.After(time.Minute); ; {
		shown, grown := screen.Look()
		if found := whole.FindStringSubmatch(shown); found != nil {
			return strings.TrimSpace(found[1])
		}
		select {
		case <-grown:
		case <-late:
			t.Fatalf("there is no line with %q: %q", begin, shown)
		}
	}
}

// fish prints the words to which it completes a line.
func TestFishCompletes(t *testing.T) {
	lines := slices.Sorted(maps.Keys(completions))
	var script strings.Builder
	script.WriteString("sandbar completion fish | source")
	for n, line := range lines {
		fmt.Fprintf(&script, "; echo LINE%d; complete -C '%s'", n, line)
	}
	out, err := shellOf(t, "fish", "--no-config", "-c", script.String()).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for n, line := range lines {
		_, found, _ := strings.Cut(string(out), fmt.Sprintf("LINE%d\n", n))
		found, _, _ = strings.Cut(found, "LINE")
		got := line
		if words := strings.Split(strings.TrimSpace(found), "\n"); words[0] != "" {
			word, _, _ := strings.Cut(words[0], "\t") // and its description
			got = line[:strings.LastIndex(line, " ")+1] + word
			// Two words, of which the second has a dot behind it, are how cobra has fish complete one without a space.
			if len(words) > 1 && !slices.Equal(words[1:], []string{words[0] + "."}) {
				t.Errorf("%q is completed by several words: %q", line, words)
			}
		}
		if got != completions[line] {
			t.Errorf("%q becomes %q, want %q", line, got, completions[line])
		}
	}
}
