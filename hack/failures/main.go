// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Command failures passes on what `go test -v` prints, and repeats at the end the last lines of each test
// that failed: the end of a log of ten thousand lines then says why it is red. It exits with 1 if a test
// failed.
package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// kept is how many lines of a test are repeated.
const kept = 60

func main() {
	failed, err := pass(os.Stdin, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "failures:", err)
	}
	if failed || err != nil {
		os.Exit(1)
	}
}

// pass copies the lines and then tells of the tests that failed.
func pass(in io.Reader, out io.Writer) (bool, error) {
	var (
		test   string // whose lines come now
		lines  = map[string][]string{}
		failed []string
	)
	reader := bufio.NewReader(in)
	for {
		line, err := reader.ReadString('\n')
		name, passedOn := whose(line)
		if name != "" {
			test = name
		}
		if passedOn {
			if _, err := io.WriteString(out, line); err != nil {
				return true, fmt.Errorf("writing: %w", err)
			}
			if line != "" && !strings.HasPrefix(line, "=== NAME") {
				last := append(lines[test], line)
				lines[test] = last[max(0, len(last)-kept):]
			}
		}
		if strings.HasPrefix(line, "--- FAIL: ") {
			failed = append(failed, test)
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return true, fmt.Errorf("reading: %w", err)
		}
	}
	slices.Sort(failed)
	for _, test := range slices.Compact(failed) {
		fmt.Fprintf(out, "\n== %s failed; the last lines that it printed:\n%s", test, strings.Join(lines[test], ""))
	}
	return len(failed) > 0, nil
}

// whose reads from a line of `go test -v` whose lines begin with it, and whether people want to see it.
func whose(line string) (test string, passedOn bool) {
	fields := strings.Fields(line)
	if len(fields) < 3 {
		return "", true
	}
	name, _, _ := strings.Cut(fields[2], "/")
	switch fields[0] + " " + fields[1] {
	case "=== RUN", "=== CONT", "=== PAUSE":
		return name, false
	case "=== NAME", "--- PASS:", "--- FAIL:", "--- SKIP:":
		return name, true
	}
	return "", true
}
