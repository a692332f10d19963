// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
)

// A report has a line of JSON for each result. A line without a package and a test is a whole stage, which
// hack/stage.sh appends.

// write appends results to a report.
func write(path string, results []*result) error {
	if path == "" {
		return nil
	}
	var text strings.Builder
	for _, r := range results {
		line, err := json.Marshal(r)
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "%s\n", line)
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("opening the report: %w", err)
	}
	_, err = f.WriteString(text.String())
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// read returns the results of a report; one that is not there has none.
func read(path string) ([]result, error) {
	data, err := os.ReadFile(path)
	if path == "" || errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the report: %w", err)
	}
	var results []result
	for line := range strings.Lines(string(data)) {
		var r result
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			return nil, fmt.Errorf("reading the report %s: %w", path, err)
		}
		results = append(results, r)
	}
	return results, nil
}

// flakyIn counts the flaky tests of a report.
func flakyIn(path string) (int, error) {
	results, err := read(path)
	n := 0
	for _, r := range results {
		if r.Outcome == flaky {
			n++
		}
	}
	return n, err
}

// slowest is how many tests a summary names as such.
const slowest = 10

// summarize prints what a report says.
func summarize(path string, out io.Writer) error {
	results, err := read(path)
	if err != nil {
		return err
	}
	var tests, unsteady []result
	why := map[string][]string{}
	fmt.Fprintln(out, "== stages")
	for _, r := range results {
		switch {
		case r.Test == "" && r.Package == "":
			fmt.Fprintf(out, "%s %8.0fs  %s\n", words[r.Outcome], r.Seconds, r.Stage)
		case marks[r.Outcome] != "":
			unsteady = append(unsteady, r)
		case r.Outcome == skipped && r.Test != "":
			why[r.Why] = append(why[r.Why], r.Test)
		}
		if r.Test != "" && r.Outcome != skipped {
			tests = append(tests, r)
		}
	}
	fmt.Fprintf(out, "== %d tests; the slowest\n", len(tests))
	slices.SortStableFunc(tests, func(a, b result) int { return cmp.Compare(b.Seconds, a.Seconds) })
	for _, r := range tests[:min(slowest, len(tests))] {
		fmt.Fprintf(out, "%12.1fs  %s (%s)\n", r.Seconds, r.Test, r.Stage)
	}
	if len(why) > 0 {
		fmt.Fprintln(out, "== skipped")
	}
	for _, reason := range slices.Sorted(maps.Keys(why)) {
		fmt.Fprintf(out, "%s: %s\n", cmp.Or(reason, "without a reason"), strings.Join(why[reason], " "))
	}
	if len(unsteady) > 0 {
		fmt.Fprintln(out, "== flaky: defects to mend")
	}
	for _, r := range unsteady {
		fmt.Fprintf(out, "%s %s %s\n", marks[r.Outcome], r.Test, r.Why)
	}
	return nil
}
