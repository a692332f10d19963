// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package house

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	codeBlock = regexp.MustCompile("(?s)```[a-z]*\n(.*?)\n```")
	variable  = regexp.MustCompile(`\$\{?([A-Z][A-Z0-9_]+)\b`)
	// defined is an assignment, or a sentence that begins with the variable.
	defined = regexp.MustCompile("\\b([A-Z][A-Z0-9_]+)=|`\\$([A-Z][A-Z0-9_]+)` is\\b")
)

// given are variables that every shell has, and those of the app's own commands.
var given = []string{"HOME", "PATH", "PWD", "USER", "PORT"}

// TestCommandsOfDocumentsUseVariablesThatAreDefined keeps a reader from a command that cannot be run: each
// variable in a line after a prompt is defined in one of the documents.
func TestCommandsOfDocumentsUseVariablesThatAreDefined(t *testing.T) {
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(files) == 0 {
		t.Fatalf("the documents are %v, %v", files, err)
	}
	known, used := map[string]bool{}, map[string][]string{}
	for _, name := range given {
		known[name] = true
	}
	for _, file := range append(files, "../../README.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range defined.FindAllStringSubmatch(string(text), -1) {
			known[found[1]+found[2]] = true
		}
		for _, name := range variablesOf(string(text)) {
			used[name] = append(used[name], filepath.Base(file))
		}
	}
	if !slices.Contains(used["AUTH"], "sandbox.md") {
		t.Error("the test does not find $AUTH in sandbox.md")
	}
	for _, name := range slices.Sorted(maps.Keys(used)) {
		if !known[name] {
			t.Errorf("$%s is used in %s and defined in no document: write NAME=… before it, or a sentence \"`$NAME` is …\"", name, strings.Join(used[name], ", "))
		}
	}
}

// variablesOf returns the variables in commands, which follow a prompt and may go on in indented lines.
func variablesOf(document string) []string {
	names := map[string]bool{}
	for _, block := range codeBlock.FindAllStringSubmatch(document, -1) {
		command := false
		for line := range strings.SplitSeq(block[1], "\n") {
			command = strings.HasPrefix(line, "$ ") || command && strings.HasPrefix(line, "  ")
			if !command {
				continue
			}
			for _, found := range variable.FindAllStringSubmatch(line, -1) {
				names[found[1]] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}
