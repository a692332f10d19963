// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package house

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const decisionsIndex = "docs/adr/README.md"

var (
	decisionFile  = regexp.MustCompile(`^(\d{4})-[a-z0-9-]+\.md$`)
	decisionTitle = regexp.MustCompile(`^# (\d+)\. (.+)$`)
	decisionRow   = regexp.MustCompile(`^\| \[(\d+)\]\(([^)]+)\) \| (.+) \| ([^|]+) \|$`)
	laterDecision = regexp.MustCompile(`\[(\d+)\]\((\d{4}-[a-z0-9-]+\.md)\)`)
	// statuses are what a row may say; the later decisions are left out.
	statuses = []string{"accepted", "amended by", "superseded by"}
)

func TestTheIndexOfDecisionsHasEachWithItsStatus(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "docs", "adr", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	pages := map[string]string{}
	for _, file := range files {
		if name := filepath.Base(file); name != filepath.Base(decisionsIndex) {
			pages[name] = read(t, "docs/adr/"+name)
		}
	}
	if len(pages) == 0 {
		t.Fatal("there are no decisions in docs/adr")
	}
	for _, problem := range indexProblems(read(t, decisionsIndex), pages) {
		t.Error(problem)
	}
}

// indexProblems compares the rows of an index with the pages, by the names of their files.
func indexProblems(index string, pages map[string]string) (problems []string) {
	report := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	listed := map[string]bool{}
	last := 0
	for line := range strings.Lines(index) {
		if !strings.HasPrefix(line, "| [") {
			continue
		}
		row := decisionRow.FindStringSubmatch(strings.TrimSpace(line))
		if row == nil {
			report("%s: %q is not a row \"| [NUMBER](FILE) | TITLE | STATUS |\"", decisionsIndex, strings.TrimSpace(line))
			continue
		}
		number, _ := strconv.Atoi(row[1]) // digits
		file, status := row[2], row[4]
		if page, ok := pages[file]; !ok || listed[file] {
			report("%s lists %s, which is not a page, or twice", decisionsIndex, file)
		} else if want := "# " + row[1] + ". " + row[3]; firstLine(page) != want {
			report("%s says %q of %s, which begins with %q", decisionsIndex, want, file, firstLine(page))
		}
		if number <= last {
			report("%s: the rows are not in the order of their numbers: %d comes behind %d", decisionsIndex, number, last)
		}
		last, listed[file] = number, true
		problems = append(problems, statusProblems(number, file, status, pages)...)
	}
	for file, page := range pages {
		name, title := decisionFile.FindStringSubmatch(file), decisionTitle.FindStringSubmatch(firstLine(page))
		switch {
		case name == nil || title == nil || strings.TrimLeft(name[1], "0") != title[1]:
			report("docs/adr/%s: a decision's file is called NNNN-words.md, and begins with \"# NUMBER. TITLE\"; it begins with %q", file, firstLine(page))
		case !listed[file]:
			report("%s does not list %s; add: | [%s](%s) | %s | accepted |", decisionsIndex, file, title[1], file, title[2])
		}
	}
	slices.Sort(problems)
	return problems
}

// statusProblems checks a status, and that one of the two pages says what a later decision has changed.
func statusProblems(number int, file, status string, pages map[string]string) (problems []string) {
	laters := laterDecision.FindAllStringSubmatch(status, -1)
	word := strings.TrimSpace(strings.Trim(laterDecision.ReplaceAllString(status, ""), ", "))
	if !slices.Contains(statuses, word) || (word == "accepted") != (len(laters) == 0) {
		return []string{fmt.Sprintf("%s: the status of %d is %q; write accepted, or amended by or superseded by with links to later decisions", decisionsIndex, number, status)}
	}
	for _, later := range laters {
		by, _ := strconv.Atoi(later[1])
		page, ok := pages[later[2]]
		switch {
		case !ok || by <= number || !strings.HasPrefix(firstLine(page), "# "+later[1]+". "):
			problems = append(problems, fmt.Sprintf("%s: %d is said to be changed by %s, which is not a later decision", decisionsIndex, number, later[0]))
		case !mentions(pages[file], by) && !mentions(page, number):
			problems = append(problems, fmt.Sprintf("docs/adr/%s does not say what decision %d has changed: name it there as [ADR %d](%s)", file, by, by, later[2]))
		}
	}
	return problems
}

func mentions(page string, number int) bool {
	return regexp.MustCompile(fmt.Sprintf(`\bADR %d\b`, number)).MatchString(page)
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

func TestAnIndexThatDiffersFromThePagesIsFound(t *testing.T) {
	pages := map[string]string{"0001-one.md": "# 1. One\nChanged by ADR 2.\n", "0002-two.md": "# 2. Two\n"}
	const one, two = "| [1](0001-one.md) | One | accepted |\n", "| [2](0002-two.md) | Two | accepted |\n"
	for name, test := range map[string]struct{ index, problem string }{
		"as it is":                     {one + two, ""},
		"amended":                      {strings.Replace(one, "accepted", "amended by [2](0002-two.md)", 1) + two, ""},
		"a page that is missing":       {one, "does not list 0002-two.md; add: | [2](0002-two.md) | Two | accepted |"},
		"a row without a page":         {one + two + "| [3](0003-three.md) | Three | accepted |\n", "lists 0003-three.md, which is not a page"},
		"a row twice":                  {one + one + two, "lists 0001-one.md, which is not a page, or twice"},
		"another title":                {strings.Replace(one, "One", "Uno", 1) + two, `says "# 1. Uno" of 0001-one.md, which begins with "# 1. One"`},
		"another order":                {two + one, "1 comes behind 2"},
		"a status that there is not":   {strings.Replace(one, "accepted", "maybe", 1) + two, `the status of 1 is "maybe"`},
		"changed by nothing":           {strings.Replace(one, "accepted", "amended by", 1) + two, `the status of 1 is "amended by"`},
		"changed by an earlier one":    {one + strings.Replace(two, "accepted", "superseded by [1](0001-one.md)", 1), "which is not a later decision"},
		"changed by one that is not":   {strings.Replace(one, "accepted", "superseded by [9](0009-nine.md)", 1) + two, "which is not a later decision"},
		"a row that cannot be read":    {one + two + "| [3] | Three |\n", "is not a row"},
		"a change that no page names ": {"| [1](0001-one.md) | One | amended by [3](0003-three.md) |\n" + two + "| [3](0003-three.md) | Three | accepted |\n", "does not say what decision 3 has changed"},
	} {
		t.Run(name, func(t *testing.T) {
			all := maps.Clone(pages)
			if strings.Contains(name, "no page names") {
				all["0003-three.md"] = "# 3. Three\n"
			}
			problems := strings.Join(indexProblems(test.index, all), "\n")
			if test.problem == "" && problems != "" || !strings.Contains(problems, test.problem) {
				t.Errorf("problems are %q, want %q", problems, test.problem)
			}
		})
	}
}
