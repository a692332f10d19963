// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package doccommands compares the commands that documents show with those that a program has.
//
// The test of each program calls it with the program's own commands, so that a flag that is renamed, or a command that
// is taken away, fails where the documents still have it.
package doccommands

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

var (
	block  = regexp.MustCompile("(?s)```[a-z]*\n(.*?)\n *```")
	inline = regexp.MustCompile("`([^`\n]+)`")
	// opening is what stands before the words of a command in a line: a prompt, a pipe, or another command's end.
	opening = regexp.MustCompile(`(?:^|[$|;&(] *|&& )$`)
	// comment begins a comment of the shell.
	comment = regexp.MustCompile(`(^|\s)#.*`)
	// quoted is one word, also if it has spaces and dashes.
	quoted = regexp.MustCompile(`'[^']*'|"[^"]*"`)
)

// documents are those that show commands, from the repository's folder.
var documents = []string{"README.md", "CONTRIBUTING.md", "docs/*.md", "examples/*/README.md"}

// CheckAll is Check for all documents of the repository, whose folder is root.
func CheckAll(t testing.TB, newRoot func() *cobra.Command, root string) int {
	t.Helper()
	var files []string
	for _, pattern := range documents {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v, %v", pattern, found, err)
		}
		files = append(files, found...)
	}
	return Check(t, newRoot, files...)
}

// Check fails the test for each command of the program in the documents, in a block after a prompt or between
// backquotes, that the program does not have or does not take with these flags. It returns how many commands there are.
func Check(t testing.TB, newRoot func() *cobra.Command, files ...string) int {
	t.Helper()
	n := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range commandsOf(string(text), newRoot().Name()) {
			n++
			if problem := problemOf(newRoot(), words(line)[1:]); problem != "" {
				t.Errorf("%s: %s: %s", file, line, problem)
			}
		}
	}
	return n
}

// commandsOf returns the lines of commands of a program in a document.
func commandsOf(document, program string) []string {
	var lines []string
	for _, b := range block.FindAllStringSubmatch(document, -1) {
		for line := range strings.SplitSeq(strings.ReplaceAll(b[1], "\\\n", " "), "\n") {
			if command, ok := strings.CutPrefix(strings.TrimSpace(line), "$ "); ok {
				lines = append(lines, cut(command, program)...)
			}
		}
	}
	for _, code := range inline.FindAllStringSubmatch(block.ReplaceAllString(document, ""), -1) {
		lines = append(lines, cut(strings.ReplaceAll(code[1], `\|`, "|"), program)...)
	}
	return lines
}

// cut returns the commands of the program in a line of the shell, each up to its end.
func cut(line, program string) []string {
	line = comment.ReplaceAllString(line, "")
	var found []string
	for at := 0; ; {
		next := strings.Index(line[at:], program+" ")
		if next < 0 {
			return found
		}
		at += next
		if opening.MatchString(line[:at]) {
			end := strings.IndexAny(line[at:], ";&)")
			if pipe := strings.Index(line[at:], " | "); pipe >= 0 && (end < 0 || pipe < end) {
				end = pipe
			}
			if end < 0 {
				end = len(line) - at
			}
			found = append(found, strings.TrimSpace(line[at:at+end]))
		}
		at += len(program) + 1
	}
}

// words are those of a command, each quotation as one word.
func words(line string) []string { return strings.Fields(quoted.ReplaceAllString(line, "QUOTED")) }

// problemOf says why a program does not take words; empty if it does. What the words of others mean, after --, is
// theirs.
func problemOf(root *cobra.Command, words []string) string {
	if end := slices.Index(words, "--"); end >= 0 {
		words = words[:end]
	}
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	cmd, rest, err := root.Find(words)
	if err != nil {
		return err.Error()
	}
	if cmd == root && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
		return fmt.Sprintf("there is no command %q", rest[0])
	}
	cmd.InitDefaultHelpFlag()
	cmd.InitDefaultVersionFlag()
	for _, word := range rest {
		if problem := flagProblem(cmd, word); problem != "" {
			return problem
		}
	}
	return ""
}

// flagProblem says that a command does not have the flag that a word is.
func flagProblem(cmd *cobra.Command, word string) string {
	word = strings.Trim(word, "[]…")
	name, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
	find := func(set *pflag.FlagSet) bool { return set.Lookup(name) != nil }
	switch {
	case len(word) < 2 || word[0] != '-' || name == "":
		return ""
	case !strings.HasPrefix(word, "--"):
		// -it is -i -t; of -ojson the rest is a value.
		name = word[1:2]
		find = func(set *pflag.FlagSet) bool { return set.ShorthandLookup(name) != nil }
	}
	if find(cmd.Flags()) || find(cmd.InheritedFlags()) {
		return ""
	}
	return fmt.Sprintf("%s has no flag %s", cmd.CommandPath(), word)
}
