// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package house

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// delimiter is the line below the head of a table.
var delimiter = regexp.MustCompile(`^\|( *:?-+:? *\|)+$`)

// TestTablesOfDocumentsAreWhole keeps rows from being shown as text with bars: a row without a head above it, as after
// an empty line, or with more or fewer cells than the head.
func TestTablesOfDocumentsAreWhole(t *testing.T) {
	for _, file := range texts(t) {
		if !strings.HasSuffix(file, ".md") {
			continue
		}
		for _, problem := range brokenRows(read(t, file)) {
			t.Errorf("%s: %s", file, problem)
		}
	}
}

func brokenRows(document string) []string {
	var problems []string
	lines := strings.Split(document, "\n")
	cells, inCode := 0, false
	for i, line := range lines {
		row := strings.TrimSpace(line)
		if strings.HasPrefix(row, "```") {
			inCode = !inCode
		}
		if inCode || !strings.HasPrefix(row, "|") {
			cells = 0
			continue
		}
		n := strings.Count(strings.ReplaceAll(row, `\|`, ""), "|") - 1
		switch {
		case cells == 0 && (i+1 == len(lines) || !delimiter.MatchString(strings.TrimSpace(lines[i+1]))):
			problems = append(problems, fmt.Sprintf("line %d: a row without a table: an empty line above ends the table", i+1))
			cells = n
		case cells == 0:
			cells = n
		case n != cells:
			problems = append(problems, fmt.Sprintf("line %d: a row of %d cells in a table of %d", i+1, n, cells))
		}
	}
	return problems
}

func TestBrokenRowsAreFound(t *testing.T) {
	const document = "| a | b |\n| --- | :-: |\n| 1 | `x\\|y` |\n| 1 | 2 | 3 |\n\n| an | orphan |\n| and | more |\n\n```\n| no table |\n```\n"
	want := []string{"line 4: a row of 3 cells in a table of 2", "line 6: a row without a table: an empty line above ends the table"}
	if diff := cmp.Diff(want, brokenRows(document)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
