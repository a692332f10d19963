// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package house

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// rooms are the packages of the data plane, each with those that it may import
// (docs/adr/0031-rooms-of-the-data-plane.md). A room that sees less can leak less: what reaches a pod, upstream, does not
// see what keeps an instance awake, and what waits for an instance does not see headers.
var rooms = map[string][]string{
	"access":    {"limit", "refusal", "series", "spans"},
	"claim":     {"refusal"},
	"fixture":   {"locate"},
	"headers":   {"access", "locate", "preview"},
	"lifecycle": {"access", "limit", "locate", "record", "refusal", "series"},
	"limit":     {"refusal"},
	"locate":    {"access", "refusal"},
	"podexec":   {},
	"preview":   {},
	"record":    {"access", "locate", "refusal", "series", "spans"},
	"refusal":   {},
	"respond":   {},
	"series":    {},
	"spans":     {},
	"upstream":  {"access", "headers", "limit", "locate", "podexec", "record", "refusal", "respond"},
	"wake":      {"access", "lifecycle", "limit", "locate", "record", "refusal", "upstream"},
}

func TestRoomsOfTheDataPlaneSeeNoMoreThanTheyNeed(t *testing.T) {
	if diff := cmp.Diff(rooms, importsWithin(t, "dataplane")); diff != "" {
		t.Errorf("imports between the rooms (-list +code); an import that is new needs a reason, and its line in rooms_test.go:\n%s", diff)
	}
}

// groups are the packages of the command line, each with those that it may import. A group of commands can be read and tested
// without the others; what they share is in cli.
var groups = map[string][]string{
	"catalogue": {"cli"},
	"cli":       {},
	"clitest":   {"cli"},
	"develop":   {"cli", "object", "top"}, // sandbar top selects as get does, and suspends as suspend does
	"object":    {"cli"},
	"start":     {"cli"},
	"top":       {},
}

func TestGroupsOfCommandsSeeNoMoreThanTheyNeed(t *testing.T) {
	if diff := cmp.Diff(groups, importsWithin(t, "cmd/sandbar")); diff != "" {
		t.Errorf("imports between the groups (-list +code); an import that is new needs a reason, and its line in rooms_test.go:\n%s", diff)
	}
}

// importsWithin returns the packages below a folder, each with those of them that it imports, all without the folder.
func importsWithin(t *testing.T, folder string) map[string][]string {
	t.Helper()
	below := module + "/" + folder + "/"
	got := map[string][]string{}
	for _, p := range listPackages(t, folder) {
		name, isBelow := strings.CutPrefix(p.ImportPath, below)
		if !isBelow {
			continue
		}
		got[name] = []string{}
		for _, path := range p.Imports {
			if other, ok := strings.CutPrefix(path, below); ok {
				got[name] = append(got[name], other)
			}
		}
		slices.Sort(got[name])
	}
	return got
}
