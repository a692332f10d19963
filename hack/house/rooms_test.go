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
	const below = module + "/dataplane/"
	got := map[string][]string{}
	for _, p := range listPackages(t, "dataplane") {
		room, isRoom := strings.CutPrefix(p.ImportPath, below)
		if !isRoom {
			continue
		}
		got[room] = []string{}
		for _, path := range p.Imports {
			if other, ok := strings.CutPrefix(path, below); ok {
				got[room] = append(got[room], other)
			}
		}
		slices.Sort(got[room])
	}
	if diff := cmp.Diff(rooms, got); diff != "" {
		t.Errorf("imports between the rooms (-list +code); an import that is new needs a reason, and its line in rooms_test.go:\n%s", diff)
	}
}
