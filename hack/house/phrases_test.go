// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package house

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPhrasesAreFound(t *testing.T) {
	phrases := parsePhrases(t, "# a comment\n"+
		"forbidden\tforbidden words?\\b\tname it\n"+
		"goes\tthere goes\\b|(goes [a-z]+)\tname it\n")
	for name, test := range map[string]struct {
		content string
		want    []string
	}{
		"in any case, with their line":        {"one\ntwo Forbidden word.", []string{"2 Forbidden word"}},
		"across two lines":                    {"one\n\ntwo forbidden\nwords", []string{"3 forbidden words"}},
		"across two lines of a comment":       {"\t// one forbidden\n\t// word", []string{"1 forbidden word"}},
		"across two lines of a quotation":     {"> forbidden\n> word", []string{"1 forbidden word"}},
		"twice, in the order of their lines":  {"it goes far\nforbidden word", []string{"1 goes far", "2 forbidden word"}},
		"at the start of a later line":        {"a\nb\nforbidden word", []string{"3 forbidden word"}},
		"not as a part of a longer word":      {"unforbidden word, forbidden wordsmith", nil},
		"not where the group has no part":     {"there goes far", nil},
		"after what the group has no part in": {"there goes far; it goes far", []string{"1 goes far"}},
		"not across an empty line":            {"forbidden\n\nword", nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, f := range find(phrases, test.content) {
				got = append(got, fmt.Sprintf("%d %s", f.line, f.text))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestTheListOnlyShrinks(t *testing.T) {
	const kept, gone = "hack/house/doc.go", "gone/file.go"
	for name, test := range map[string]struct {
		listed, counts, updated map[string]int
		problems                []string // before the update
	}{
		"as listed":         {listed: map[string]int{kept: 2}, counts: map[string]int{kept: 2}, updated: map[string]int{kept: 2}},
		"more than listed":  {map[string]int{kept: 2}, map[string]int{kept: 3}, map[string]int{kept: 2}, []string{kept + " has 3"}},
		"fewer than listed": {map[string]int{kept: 2}, map[string]int{kept: 1}, map[string]int{kept: 1}, []string{kept + " has 1"}},
		"none any more":     {map[string]int{kept: 2}, nil, map[string]int{}, []string{kept + " has 0"}},
		"a new file":        {map[string]int{}, map[string]int{kept: 1}, map[string]int{}, []string{kept + " has 1"}},
		"a new file, and another that improved": {
			map[string]int{kept: 2},
			map[string]int{kept: 1, "new.go": 1},
			map[string]int{kept: 1},
			[]string{kept + " has 1", "new.go has 1"},
		},
		"a moved file": {
			map[string]int{gone: 2},
			map[string]int{"new.go": 2},
			map[string]int{"new.go": 2},
			[]string{gone + " has 0", "new.go has 2"},
		},
		"a file that became two": {
			map[string]int{gone: 3},
			map[string]int{"a.go": 1, "b.go": 2},
			map[string]int{"a.go": 1, "b.go": 2},
			[]string{"a.go has 1", "b.go has 2", gone + " has 0"},
		},
		"a moved file that became worse": {
			map[string]int{gone: 2},
			map[string]int{"new.go": 3},
			map[string]int{},
			[]string{gone + " has 0", "new.go has 3"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			problems := compare(test.listed, test.counts)
			if len(problems) != len(test.problems) {
				t.Fatalf("problems are %v, want %v", problems, test.problems)
			}
			for i, want := range test.problems {
				if !strings.HasPrefix(problems[i].text, want+" ") {
					t.Errorf("problem %d is %q, want %q", i, problems[i].text, want)
				}
			}
			if diff := cmp.Diff(test.updated, lowered(test.listed, test.counts)); diff != "" {
				t.Errorf("updated (-want +got):\n%s", diff)
			}
		})
	}
}
