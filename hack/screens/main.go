// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Command screens draws the pictures of terminals in docs/pictures as SVG, from what the tests of the command line
// compare: a screen of sandbar top, and recordings of commands. It runs with make generate, so that make verify finds a
// picture that is older than what it shows.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// pictures are drawn from golden files; recordings appear line by line.
var pictures = []struct {
	file, golden string
	title        string
	// command is the recording of the golden file that is meant; empty means a screen.
	command string
}{
	{"top.svg", "cmd/sandbar/top/testdata/picture.golden", "sandbar top", ""},
	{"create-wait.svg", "cmd/sandbar/object/testdata/recording.golden", "sandbar create --wait", "$ sandbar create"},
	{"describe.svg", "cmd/sandbar/object/testdata/recording.golden", "sandbar describe", "$ sandbar describe"},
}

func main() {
	root := "."
	if len(os.Args) > 1 {
		root = os.Args[1]
	}
	for _, p := range pictures {
		if err := draw(root, p.file, p.golden, p.title, p.command); err != nil {
			fmt.Fprintln(os.Stderr, "screens:", err)
			os.Exit(1)
		}
	}
}

func draw(root, file, golden, title, command string) error {
	text, err := os.ReadFile(filepath.Join(root, golden))
	if err != nil {
		return err
	}
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	if command != "" {
		if lines = recording(lines, command); len(lines) == 0 {
			return fmt.Errorf("%s has no recording that begins with %q", golden, command)
		}
	}
	picture := svg(title, lines, command != "")
	return os.WriteFile(filepath.Join(root, "docs", "pictures", file), []byte(picture), 0o644)
}

// recording returns the lines from the one that begins with a command to the next command.
func recording(lines []string, command string) []string {
	var found []string
	for _, line := range lines {
		switch {
		case strings.HasPrefix(line, command):
			found = []string{line}
		case found != nil && strings.HasPrefix(line, "$ "):
			return trimmed(found)
		case found != nil:
			found = append(found, line)
		}
	}
	return trimmed(found)
}

func trimmed(lines []string) []string {
	for len(lines) > 0 && lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}
