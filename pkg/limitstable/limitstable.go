// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package limitstable compares rows of docs/limits.md with the numbers of the code.
//
// A package with private numbers compares its rows in a test of its own, so that they stay private.
// The test of cmd/sandbar-provider, which imports all controllers, compares the sections whose
// numbers come from several of them: only there is it known that a section has no other row.
package limitstable

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Limit is one row of a table in docs/limits.md, with its numbers taken from the code.
type Limit struct {
	// Name is the first cell of the row, and Number the whole second cell.
	Name, Number string
	// Says are parts of the third cell that have numbers.
	Says []string
}

// Check fails the test if the section of the document does not have these rows with these numbers.
// If whole is set, it also fails for each row of the section that is not among them.
func Check(t testing.TB, file, section string, whole bool, limits ...Limit) {
	t.Helper()
	doc, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range differences(string(doc), section, whole, limits) {
		t.Errorf("%s, section %q: %s", file, section, problem)
	}
}

func differences(doc, section string, whole bool, limits []Limit) []string {
	rows := rowsOf(doc, section)
	var problems []string
	for _, limit := range limits {
		cells, found := rows[limit.Name]
		delete(rows, limit.Name)
		if !found {
			problems = append(problems, fmt.Sprintf("the limit %q has no row", limit.Name))
			continue
		}
		if diff := cmp.Diff(limit.Number, cells[0]); diff != "" {
			problems = append(problems, fmt.Sprintf("%s (-code +doc):\n%s", limit.Name, diff))
		}
		for _, part := range limit.Says {
			if !strings.Contains(cells[1], part) {
				problems = append(problems, fmt.Sprintf("%s: the row does not say %q", limit.Name, part))
			}
		}
	}
	if whole {
		for name := range rows {
			problems = append(problems, fmt.Sprintf("no test compares the row %q with the code", name))
		}
	}
	return problems
}

// CheckText fails the test if a section of the document lacks one of the parts of its text: numbers that have
// no row, each with the words around it.
func CheckText(t testing.TB, file, section string, parts ...string) {
	t.Helper()
	doc, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := textOf(string(doc), section)
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%s, section %q: it does not say %q", file, section, part)
		}
	}
}

// textOf returns a section.
func textOf(doc, section string) string {
	_, text, _ := strings.Cut(doc, "\n## "+section+"\n")
	text, _, _ = strings.Cut(text, "\n## ")
	return text
}

// rowsOf returns the second and the third cell of each row by its first.
func rowsOf(doc, section string) map[string][2]string {
	rows := map[string][2]string{}
	for line := range strings.Lines(textOf(doc, section)) {
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		if !strings.HasPrefix(line, "| ") || len(cells) < 3 || cells[0] == "limit" || cells[0] == "---" {
			continue
		}
		rows[cells[0]] = [2]string{cells[1], cells[2]}
	}
	return rows
}

// Duration returns a duration as the document has it, in its largest unit that leaves no fraction.
func Duration(d time.Duration) string {
	for _, unit := range []struct {
		of   time.Duration
		name string
	}{{time.Hour, "h"}, {time.Minute, "min"}, {time.Second, "s"}} {
		if d >= unit.of && d%unit.of == 0 {
			return fmt.Sprintf("%d %s", d/unit.of, unit.name)
		}
	}
	return d.String()
}

// Bytes returns a size as the document has it, in its largest unit that leaves no fraction.
func Bytes(n int64) string {
	for i, name := range []string{"GiB", "MiB", "KiB"} {
		if unit := int64(1) << (30 - 10*i); n >= unit && n%unit == 0 {
			return fmt.Sprintf("%d %s", n/unit, name)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}

// Count returns a number as the document has it, with commas between thousands.
func Count(n int64) string {
	digits := strconv.FormatInt(n, 10)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
