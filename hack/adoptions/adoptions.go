// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package adoptions checks what end-to-end tests record of placements and of the Sandboxes that take them, against the
// promise that a placement has at most one owner in its life, and a Sandbox at most one placement. The checker is
// porcupine; no other package imports it, and no product code imports this one.
//
// Time is the resource version of the runtime cluster, which orders all writes to it. A version of a namespace is read
// at its own resource version. A Sandbox takes its placement at some moment between the one before its creation and the
// one after its status told of the placement: the checker looks for one such moment for each, so that everything which
// was read before and after agrees.
package adoptions

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/anishathalye/porcupine"
)

// Version is a placement's namespace as it was at a resource version.
type Version struct {
	// Placement is the name of the namespace, Revision its resource version.
	Placement string
	Revision  int64
	// Owner is the UID of the Sandbox that has the placement; empty for a member, which nobody has.
	Owner string
	// Leaving tells that a member is being removed, so that nobody may take it. Gone tells that this was the last
	// version. Neither counts for a placement that has an owner.
	Leaving, Gone bool
}

// Take is how a Sandbox came to its placement.
type Take struct {
	// Sandbox is the UID of the Sandbox, Placement the namespace of the placement that its status told of; empty if it
	// was deleted before its status told of any.
	Sandbox, Placement string
	// Began is a resource version from before the Sandbox was created, and Ended one from after its status was read.
	Began, Ended int64
}

// History is what was recorded. Its methods may be called at the same time. The zero value is empty.
type History struct {
	mu       sync.Mutex
	versions map[string]map[int64]Version // by placement and revision
	takes    []Take
}

// Saw records a version of a placement's namespace. One that was recorded already changes nothing, so that a watch may
// begin again with a list.
func (h *History) Saw(v Version) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.versions == nil {
		h.versions = map[string]map[int64]Version{}
	}
	if h.versions[v.Placement] == nil {
		h.versions[v.Placement] = map[int64]Version{}
	}
	if _, known := h.versions[v.Placement][v.Revision]; !known {
		h.versions[v.Placement][v.Revision] = v
	}
}

// Took records that the status of a Sandbox told of a placement. It is called again for each status that tells of one:
// a Sandbox whose statuses differ had two.
func (h *History) Took(t Take) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !slices.Contains(h.takes, t) {
		h.takes = append(h.takes, t)
	}
}

// Listed records which placements there were at a revision: those that were seen before and are not among them have
// gone meanwhile.
func (h *History) Listed(revision int64, present []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for placement, versions := range h.versions {
		last := slices.MaxFunc(inOrder(versions), byRevision)
		if !last.Gone && !slices.Contains(present, placement) {
			last.Revision, last.Gone = revision, true
			versions[revision] = last
		}
	}
}

// Counts are how many versions, of how many placements, and how many takes were recorded.
func (h *History) Counts() (versions, placements, takes int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, of := range h.versions {
		versions += len(of)
	}
	return versions, len(h.versions), len(h.takes)
}

// Leaders says how many processes act for the Sandboxes.
type Leaders int

const (
	// One process acts at a time: a Sandbox never has a second placement.
	One Leaders = iota
	// Several processes believe that they are the one. Each may give a Sandbox a placement; the Sandbox is only ever
	// told of one of them, and the others are removed.
	Several
)

// Check returns a line for each placement and each Sandbox whose history breaks the promise.
func (h *History) Check(leaders Leaders) (wrong []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var versions []Version
	for _, placement := range h.versions {
		versions = append(versions, inOrder(placement)...)
	}
	told := slices.DeleteFunc(slices.Clone(h.takes), func(t Take) bool { return t.Placement == "" })
	takes := slices.Concat(told, untold(versions, h.takes, leaders))
	wrong = check("placement", placements, byPlacement(versions, takes))
	if leaders == Several {
		return append(wrong, check("Sandbox", sandboxes, bySandbox(nil, told))...)
	}
	return append(wrong, check("Sandbox", sandboxes, bySandbox(versions, takes))...)
}

// untold are the takes of placements that have had a Sandbox as their owner, and of which no status of it told: those of a
// Sandbox that was deleted before, and with several leaders those of any.
func untold(versions []Version, takes []Take, leaders Leaders) (more []Take) {
	type pair struct{ sandbox, placement string }
	began, known, told := map[string]int64{}, map[pair]bool{}, map[string]bool{}
	for _, t := range takes {
		if at, ok := began[t.Sandbox]; !ok || t.Began < at {
			began[t.Sandbox] = t.Began
		}
		known[pair{t.Sandbox, t.Placement}] = true
		told[t.Sandbox] = told[t.Sandbox] || t.Placement != ""
	}
	for _, v := range versions {
		at, asked := began[v.Owner]
		if p := (pair{v.Owner, v.Placement}); asked && !known[p] && (leaders == Several || !told[v.Owner]) {
			known[p] = true
			more = append(more, Take{Sandbox: v.Owner, Placement: v.Placement, Began: at, Ended: math.MaxInt64})
		}
	}
	return more
}

func inOrder(versions map[int64]Version) []Version {
	list := make([]Version, 0, len(versions))
	for _, v := range versions {
		list = append(list, v)
	}
	slices.SortFunc(list, byRevision)
	return list
}

func byRevision(a, b Version) int { return cmp.Compare(a.Revision, b.Revision) }

// check has porcupine look for an order of the operations of each history.
func check(what string, model porcupine.Model, histories map[string][]porcupine.Operation) (wrong []string) {
	for name, history := range histories {
		if porcupine.CheckOperations(model, history) {
			continue
		}
		lines := make([]string, 0, len(history))
		slices.SortStableFunc(history, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
		for _, op := range history {
			lines = append(lines, fmt.Sprintf("[%d, %d] %s", op.Call, op.Return, describe(op.Input)))
		}
		wrong = append(wrong, fmt.Sprintf("%s %s: no order explains %s", what, name, strings.Join(lines, "; ")))
	}
	slices.Sort(wrong)
	return wrong
}

func describe(input any) string {
	switch op := input.(type) {
	case Take:
		return fmt.Sprintf("Sandbox %s took %s", op.Sandbox, op.Placement)
	case Version:
		return fmt.Sprintf("%s has the owner %q, leaving %v, gone %v", op.Placement, op.Owner, op.Leaving, op.Gone)
	}
	return fmt.Sprint(input)
}
