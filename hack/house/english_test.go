// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package house

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var (
	update  = flag.Bool("update", false, "lower the numbers of testdata/english.txt to what the files have; it raises none")
	enlarge = flag.Bool("enlarge", false, "with -update: count again, for a phrase that was added to testdata/phrases.txt")
)

const (
	phrasesFile = "hack/house/testdata/phrases.txt"
	countsFile  = "hack/house/testdata/english.txt"
)

const countsHeader = `# How many of the phrases in phrases.txt a file has. The list only shrinks:
#   go test ./hack/house -run TestEnglish -update
# lowers numbers. It hands those of files that are gone to new files, so that moving a file is free.
`

func TestEnglishThatPeopleKnow(t *testing.T) {
	phrases := parsePhrases(t, read(t, phrasesFile))
	listed := parseCounts(t, read(t, countsFile))
	found, counts := map[string][]finding{}, map[string]int{}
	for _, path := range texts(t) {
		if findings := find(phrases, read(t, path)); len(findings) > 0 {
			found[path], counts[path] = findings, len(findings)
		}
	}
	if *update {
		listed = lowered(listed, counts)
		if *enlarge {
			listed = counts
		}
		writeCounts(t, listed)
	}
	for _, problem := range compare(listed, counts) {
		if t.Errorf("%s", problem.text); problem.show {
			for _, f := range found[problem.path] {
				t.Logf("%s:%d: %q: write %s", problem.path, f.line, f.text, f.advice)
			}
		}
	}
}

// A phrase is what texts should not have.
type phrase struct {
	hints   []string // each match has one of them, in lower case: a regular expression is slow
	pattern *regexp.Regexp
	advice  string
}

// A finding is a phrase in a text.
type finding struct {
	line         int
	text, advice string
}

func parsePhrases(t *testing.T, content string) []phrase {
	t.Helper()
	var phrases []phrase
	for line := range strings.Lines(content) {
		if line = strings.TrimSuffix(line, "\n"); line == "" || line[0] == '#' {
			continue
		}
		columns := strings.Split(line, "\t")
		if len(columns) != 3 {
			t.Fatalf("%s: %q has not three columns with tabs between them", phrasesFile, line)
		}
		pattern, err := regexp.Compile(`(?i)\b(?:` + columns[1] + `)`)
		if err != nil {
			t.Fatalf("%s: %q: %v", phrasesFile, line, err)
		}
		phrases = append(phrases, phrase{hints: strings.Split(columns[0], "|"), pattern: pattern, advice: columns[2]})
	}
	return phrases
}

// find returns the phrases of a text in the order of its lines, also those across two lines.
func find(phrases []phrase, content string) []finding {
	joined, starts := join(content)
	lower := strings.ToLower(joined)
	var findings []finding
	for _, p := range phrases {
		if !slices.ContainsFunc(p.hints, func(hint string) bool { return strings.Contains(lower, hint) }) {
			continue
		}
		for _, at := range p.pattern.FindAllStringSubmatchIndex(joined, -1) {
			if p.pattern.NumSubexp() > 0 && at[2] < 0 {
				continue
			}
			line, _ := slices.BinarySearch(starts, at[0]+1)
			findings = append(findings, finding{line: line, text: joined[at[0]:at[1]], advice: p.advice})
		}
	}
	slices.SortStableFunc(findings, func(a, b finding) int { return a.line - b.line })
	return findings
}

// A problem is a file whose number is not the listed one.
type problem struct {
	path, text string
	show       bool // its phrases
}

func compare(listed, counts map[string]int) []problem {
	all := maps.Clone(listed)
	maps.Copy(all, counts)
	var problems []problem
	for _, path := range slices.Sorted(maps.Keys(all)) {
		allowed, isListed := listed[path]
		switch count := counts[path]; {
		case !isListed:
			problems = append(problems, problem{path, fmt.Sprintf("%s has %d of the phrases that this repository does without. A new text has none; "+
				"when the file was moved or split off another, move its number in %s (-update does it for a moved file).", path, count, countsFile), true})
		case count > allowed:
			problems = append(problems, problem{path, fmt.Sprintf("%s has %d of the phrases that this repository does without, and %s allows %d. Reword what you wrote:",
				path, count, countsFile, allowed), true})
		case count < allowed:
			problems = append(problems, problem{path, fmt.Sprintf("%s has %d of the phrases, fewer than %s says (%d). Thank you; keep it so with: go test ./hack/house -run TestEnglish -update",
				path, count, countsFile, allowed), false})
		}
	}
	return problems
}

// lowered returns the list with numbers that are too high lowered. A new file gets a number only from
// what files that are gone have left over, so that the sum never grows.
func lowered(listed, counts map[string]int) map[string]int {
	list, left := map[string]int{}, 0
	for path, allowed := range listed {
		if count := min(allowed, counts[path]); count > 0 {
			list[path] = count
		} else if missing(path) {
			left += allowed
		}
	}
	for _, path := range slices.Sorted(maps.Keys(counts)) {
		if _, ok := listed[path]; !ok && counts[path] <= left {
			list[path] = counts[path]
			left -= counts[path]
		}
	}
	return list
}

// join returns a text as one line, without what begins the lines of comments, lists and quotations,
// and where in it each line begins.
func join(content string) (joined string, starts []int) {
	var text strings.Builder
	for line := range strings.Lines(content) {
		starts = append(starts, text.Len())
		line = strings.TrimSpace(line)
		for _, mark := range []string{"//", "* ", "> "} {
			line = strings.TrimSpace(strings.TrimPrefix(line, mark))
		}
		text.WriteString(line + " ")
	}
	return text.String(), starts
}

func parseCounts(t *testing.T, content string) map[string]int {
	t.Helper()
	counts := map[string]int{}
	for line := range strings.Lines(content) {
		if line[0] == '#' {
			continue
		}
		number, path, ok := strings.Cut(strings.TrimSpace(line), " ")
		count, err := strconv.Atoi(number)
		if _, twice := counts[path]; !ok || err != nil || count < 1 || twice {
			t.Fatalf("%s: %q is not a number above 0 and a path that no other line has", countsFile, line)
		}
		counts[path] = count
	}
	return counts
}

func writeCounts(t *testing.T, counts map[string]int) {
	t.Helper()
	text := []byte(countsHeader)
	for _, path := range slices.Sorted(maps.Keys(counts)) {
		text = fmt.Appendf(text, "%d %s\n", counts[path], path)
	}
	if err := os.WriteFile(filepath.Join(root, filepath.FromSlash(countsFile)), text, 0o644); err != nil {
		t.Fatal(err)
	}
}
