// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package adoptions

import (
	"slices"
	"strings"
	"testing"
)

// record makes a history of versions and takes, in any order.
func record(entries ...any) *History {
	h := &History{}
	for _, entry := range entries {
		switch e := entry.(type) {
		case Version:
			h.Saw(e)
		case Take:
			h.Took(e)
		}
	}
	return h
}

func at(revision int64, placement, owner string) Version {
	return Version{Placement: placement, Revision: revision, Owner: owner}
}

func leaving(revision int64, placement string) Version {
	return Version{Placement: placement, Revision: revision, Leaving: true}
}

func gone(revision int64, placement, owner string) Version {
	return Version{Placement: placement, Revision: revision, Owner: owner, Gone: true}
}

func took(sandbox, placement string, began, ended int64) Take {
	return Take{Sandbox: sandbox, Placement: placement, Began: began, Ended: ended}
}

func TestHistoriesThatKeepThePromise(t *testing.T) {
	for name, h := range map[string]*History{
		"nothing":                                 record(),
		"a member that nobody takes":              record(at(1, "m", ""), at(2, "m", ""), leaving(3, "m"), gone(5, "m", "")),
		"a member that is taken":                  record(at(1, "m", ""), at(6, "m", "a"), at(7, "m", "a"), took("a", "m", 4, 9)),
		"a placement that is made for its owner":  record(at(6, "c", "a"), took("a", "c", 4, 9), gone(12, "c", "a")),
		"two Sandboxes at once":                   record(at(1, "m", ""), at(1, "n", ""), at(6, "m", "b"), at(7, "n", "a"), took("a", "n", 4, 9), took("b", "m", 4, 9)),
		"the same version, after a new beginning": record(at(1, "m", ""), at(6, "m", "a"), at(6, "m", "a"), took("a", "m", 4, 9)),
		"several statuses that tell of one":       record(at(1, "m", ""), at(6, "m", "a"), took("a", "m", 4, 9), took("a", "m", 4, 30)),
		"what is read while it is still so":       record(at(1, "m", ""), at(5, "m", ""), at(6, "m", "a"), took("a", "m", 2, 9)),
		"deleted before it was told of any":       record(at(1, "m", ""), at(6, "m", "a"), gone(20, "m", "a"), took("a", "", 4, 5)),
		"deleted before it had any":               record(at(1, "m", ""), took("a", "", 4, 5)),
		"one that is removed with its owner":      record(at(1, "m", ""), at(6, "m", "a"), gone(20, "m", "a"), took("a", "m", 4, 9)),
	} {
		for leaders, who := range map[Leaders]string{One: "one leader", Several: "several leaders"} {
			if wrong := h.Check(leaders); len(wrong) > 0 {
				t.Errorf("%s, with %s: %v", name, who, wrong)
			}
		}
	}
}

func TestHistoriesThatBreakThePromise(t *testing.T) {
	for name, test := range map[string]struct {
		history *History
		words   string
	}{
		"a member goes from one owner to another": {
			record(at(1, "m", ""), at(6, "m", "a"), at(8, "m", "b"), took("a", "m", 4, 7), took("b", "m", 4, 9)), "placement m: no order explains",
		},
		"two are told of one": {
			record(at(1, "m", ""), at(6, "m", "a"), took("a", "m", 4, 9), took("b", "m", 4, 9)), "Sandbox b took m",
		},
		"one is told of two": {
			record(at(1, "m", ""), at(1, "n", ""), at(6, "m", "a"), at(8, "n", "a"), took("a", "m", 4, 9), took("a", "n", 4, 12)), "Sandbox a: no order explains",
		},
		"a member goes back to its set": {
			record(at(1, "m", ""), at(6, "m", "a"), at(8, "m", ""), took("a", "m", 4, 7)), `m has the owner ""`,
		},
		"what is leaving is taken": {
			record(at(1, "m", ""), leaving(3, "m"), at(6, "m", "a"), took("a", "m", 4, 9)), "leaving true",
		},
		"what is leaving comes back": {
			record(at(1, "m", ""), leaving(3, "m"), at(6, "m", "")), "leaving true",
		},
		"what is gone comes back": {
			record(at(1, "m", ""), gone(3, "m", ""), at(6, "m", "a"), took("a", "m", 4, 9)), "gone true",
		},
		"it is told of before it is taken": {
			record(at(1, "m", ""), at(20, "m", ""), at(22, "m", "a"), took("a", "m", 4, 9)), "[4, 9] Sandbox a took m",
		},
		"it is taken for a Sandbox that is not there yet": {
			record(at(1, "m", ""), at(6, "m", "a"), took("a", "m", 14, 19)), "[14, 19] Sandbox a took m",
		},
		"one that nobody has asked for": {
			record(at(1, "m", ""), at(6, "m", "a")), "placement m: no order explains",
		},
		"one is told of a placement that another has": {
			record(at(1, "m", ""), at(6, "m", "b"), took("a", "m", 4, 9)), `the owner "b"`,
		},
	} {
		for leaders, who := range map[Leaders]string{One: "one leader", Several: "several leaders"} {
			wrong := test.history.Check(leaders)
			if !slices.ContainsFunc(wrong, func(line string) bool { return strings.Contains(line, test.words) }) {
				t.Errorf("%s, with %s: %q", name, who, wrong)
			}
		}
	}
}

// A second placement that is never told of, and removed, is what several leaders may come to. One may not.
func TestASecondPlacementNeedsASecondLeader(t *testing.T) {
	h := record(at(1, "m", ""), at(1, "n", ""), at(6, "m", "a"), at(7, "n", "a"), gone(20, "n", "a"), took("a", "m", 4, 9))
	if wrong := h.Check(Several); len(wrong) > 0 {
		t.Errorf("with several: %v", wrong)
	}
	wrong := h.Check(One)
	if len(wrong) != 2 || !strings.HasPrefix(wrong[0], "placement n: ") || !strings.HasPrefix(wrong[1], "Sandbox a: ") {
		t.Errorf("with one: %v", wrong)
	}
}

// A Sandbox that is deleted at once is promised no less than one that has come to be.
func TestADeletedSandboxHasHadOnePlacement(t *testing.T) {
	h := record(at(1, "m", ""), at(1, "n", ""), at(6, "m", "a"), at(7, "n", "a"), took("a", "", 4, 5))
	if wrong := h.Check(One); len(wrong) != 1 || !strings.HasPrefix(wrong[0], "Sandbox a: ") {
		t.Errorf("got %v", wrong)
	}
}

// What went while the watch was away is gone: a list shows it, and nothing of the kind may come afterwards.
func TestWhatAListDoesNotShowIsGone(t *testing.T) {
	h := record(at(1, "m", ""), at(6, "m", "a"), at(3, "o", ""), gone(9, "o", ""), at(4, "p", ""), took("a", "m", 4, 9))
	h.Listed(20, []string{"p"})
	h.Listed(30, []string{"p"})
	if versions, placements, takes := h.Counts(); versions != 6 || placements != 3 || takes != 1 {
		t.Errorf("%d versions of %d placements, and %d takes", versions, placements, takes)
	}
	if wrong := h.Check(One); len(wrong) > 0 {
		t.Errorf("got %v", wrong)
	}
	h.Saw(at(40, "m", "a"))
	if wrong := h.Check(One); len(wrong) != 1 || !strings.HasPrefix(wrong[0], "placement m: ") {
		t.Errorf("got %v", wrong)
	}
}
