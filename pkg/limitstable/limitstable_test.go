// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package limitstable

import (
	"strings"
	"testing"
	"time"
)

const tableOfLimits = `# Limits

## Others

| limit | number | at it |
| --- | --- | --- |
| size | 9 | nothing |

## These

| limit | number | at it |
| --- | --- | --- |
| size | 1,024 | "more than 1024" |
| age | 5 min | nothing |

## Further

| size | 8 | nothing |
`

func TestCheckFindsEachDifference(t *testing.T) {
	size, age := Limit{Name: "size", Number: Count(1024), Says: []string{"1024"}}, Limit{Name: "age", Number: Duration(5 * time.Minute)}
	for name, c := range map[string]struct {
		whole  bool
		limits []Limit
		found  int
	}{
		"nothing":                          {true, []Limit{size, age}, 0},
		"a part of the section":            {false, []Limit{age}, 0},
		"a row that no test compares":      {true, []Limit{age}, 1},
		"a limit without a row":            {false, []Limit{{Name: "length", Number: "1"}}, 1},
		"another number":                   {false, []Limit{{Name: "size", Number: "1,025"}}, 1},
		"another number in the third cell": {false, []Limit{{Name: "size", Number: "1,024", Says: []string{"1025"}}}, 1},
	} {
		if problems := differences(tableOfLimits, "These", c.whole, c.limits); len(problems) != c.found {
			t.Errorf("%s: %d problems are found, want %d: %q", name, len(problems), c.found, problems)
		}
	}
}

func TestNumbersAreWrittenAsInTheDocument(t *testing.T) {
	for got, want := range map[string]string{
		Duration(24 * time.Hour): "24 h", Duration(90 * time.Second): "90 s", Duration(250 * time.Millisecond): "250ms",
		Bytes(16 << 30): "16 GiB", Bytes(1 << 20): "1 MiB", Bytes(5 << 9): "2560 bytes",
		Count(100): "100", Count(1_000): "1,000", Count(1_000_000): "1,000,000",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestTextOfASection(t *testing.T) {
	const doc = "# Limits\n\n## One\n\nat most 3\n\n## Two\n\nat most 4\n"
	if text := textOf(doc, "One"); !strings.Contains(text, "at most 3") || strings.Contains(text, "at most 4") {
		t.Errorf("section One is %q", text)
	}
	if text := textOf(doc, "Three"); text != "" {
		t.Errorf("a section that is not there is %q", text)
	}
}
