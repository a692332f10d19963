// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !race || racemodels

package instance

import (
	"fmt"
	"slices"
	"testing"
)

// A model of adoption: two processes, three members and three Sandboxes that want one, small enough to visit
// every state that any order of their steps, a crash, an answer that is lost and a cache that is behind can
// lead to. What the code does in one step between two calls to a server is one step here.

const (
	modelProcs   = 2
	modelMembers = 3
	modelClaims  = 3
	nobody       = -1
	coldPlace    = modelMembers // the placement that was made for a Sandbox, beside the members
)

// memberState is a member's Namespace, on the API server or as a cache has it.
type memberModel struct {
	version int8
	owner   int8 // a claim, or nobody
	leaving bool
	gone    bool
}

// claimModel is a Sandbox in kcp.
type claimModel struct {
	version int8
	told    int8 // the member that its status tells of, coldPlace, or nobody
	cold    bool // a placement was made for it
}

// What a process is about to do for a claim.
const (
	idle = iota
	adopting
	reporting
)

type workModel struct {
	next    int8
	member  int8 // of adopting and reporting
	version int8 // of the member as seen
	read    int8 // the version of the claim
}

type procModel struct {
	seen  [modelMembers]memberModel
	cold  [modelClaims]bool // as the cache shows
	knows [modelClaims]int8 // what it has adopted, or nobody
	made  [modelClaims]bool // what it has made cold, before the cache shows it (capacity.reserved)
	// counted is the one placement that counts, in a count that knows one alone.
	counted [modelClaims]int8
	doubt   [modelClaims]bool
	work    [modelClaims]workModel
}

type adoptionModel struct {
	members [modelMembers]memberModel
	claims  [modelClaims]claimModel
	procs   [modelProcs]procModel
	crashes int8
	lost    int8 // answers that are lost still
}

// adoptionRules are those of the code; without one of them the model must find what goes wrong.
type adoptionRules struct {
	processes                  int // that act
	size                       int // of the model
	compares                   bool
	notes, doubts, asks, tells bool
	counts                     bool // every placement of a claim, and not one alone
	believes                   bool // a status that tells of a placement which the cache does not show
	decides                    bool // nothing is removed before the status tells what stays
}

var allRules = adoptionRules{processes: 1, size: 3, compares: true, notes: true, doubts: true, asks: true, tells: true, counts: true, believes: true, decides: true}

// newAdoptionModel begins with so many members, and as many Sandboxes that want one; the others are gone, or
// have their placements.
func newAdoptionModel(size int) (s adoptionModel) {
	for i := range s.members {
		s.members[i].owner, s.members[i].gone = nobody, i >= size
	}
	for i := range s.claims {
		s.claims[i].told = nobody
		if i >= size {
			s.claims[i].told, s.claims[i].cold = coldPlace, true
		}
	}
	for p := range s.procs {
		s.start(p)
	}
	s.crashes, s.lost = 1, 1
	return s
}

// start begins a process: it lists everything first.
func (s *adoptionModel) start(p int) {
	proc := &s.procs[p]
	*proc = procModel{seen: s.members}
	for c := range s.claims {
		proc.cold[c], proc.knows[c], proc.counted[c] = s.claims[c].cold, nobody, nobody
		for _, m := range owned(s.members, c) {
			proc.counted[c] = int8(m)
		}
		if s.claims[c].cold {
			proc.counted[c] = coldPlace
		}
	}
}

// owned are the members that a claim has.
func owned(members [modelMembers]memberModel, claim int) (all []int) {
	for m := range members {
		if members[m].owner == int8(claim) && !members[m].gone {
			all = append(all, m)
		}
	}
	return all
}

// places is how many placements a claim has.
func (s *adoptionModel) places(claim int) int {
	n := len(owned(s.members, claim))
	if s.claims[claim].cold {
		n++
	}
	return n
}

// look is the first step for a claim: it finds its placement, or begins to get one.
func (s *adoptionModel) look(p, c int, rules adoptionRules) {
	proc, claim := &s.procs[p], s.claims[c]
	has := owned(proc.seen, c)
	switch {
	case (len(has) > 1 || len(has) == 1 && proc.cold[c]) && (!rules.decides || claim.told != nobody): // removeFormer
		s.removeOthers(c, has, proc, rules)
		return
	case len(has) == 0 && proc.cold[c] && (rules.counts || proc.counted[c] != nobody):
		if claim.told == nobody {
			proc.work[c] = workModel{reporting, coldPlace, 0, claim.version}
		}
		return
	case len(has) == 0 && rules.notes && proc.knows[c] != nobody:
		has = []int{int(proc.knows[c])}
	case len(has) == 0 && rules.asks && claim.told != nobody, len(has) == 0 && !proc.made[c] && rules.doubts && proc.doubt[c]:
		has, proc.doubt[c] = owned(s.members, c), false // lookFor
	}
	if len(has) > 0 {
		if claim.told == nobody {
			proc.work[c] = workModel{reporting, int8(has[0]), 0, claim.version}
		}
		return
	}
	if proc.made[c] || rules.believes && claim.told != nobody {
		return // capacity.holds, and start
	}
	for m, seen := range proc.seen {
		held := slices.ContainsFunc(proc.work[:], func(w workModel) bool { return w.next == adopting && w.member == int8(m) })
		if seen.owner == nobody && !seen.leaving && !seen.gone && !held && !slices.Contains(proc.knows[:], int8(m)) {
			proc.work[c] = workModel{adopting, int8(m), seen.version, claim.version}
			return
		}
	}
	proc.made[c] = true
	s.claims[c].cold = true
}

// removeOthers removes all placements of a claim but one.
func (s *adoptionModel) removeOthers(c int, has []int, proc *procModel, rules adoptionRules) {
	keep := has[0]
	if told := s.claims[c].told; rules.tells && (told == coldPlace && proc.cold[c] || told != nobody && slices.Contains(has, int(told))) {
		keep = int(told)
	}
	for _, m := range has {
		if m != keep && s.members[m].version == proc.seen[m].version {
			s.members[m].gone = true
		}
	}
	if keep != coldPlace {
		s.claims[c].cold = false
	}
}

// adopt is the write to the member. lost: its answer does not come.
func (s *adoptionModel) adopt(p, c int, rules adoptionRules, lost bool) {
	proc := &s.procs[p]
	work := proc.work[c]
	proc.work[c] = workModel{}
	member := &s.members[work.member]
	if member.gone || rules.compares && member.version != work.version {
		return
	}
	member.owner = int8(c)
	member.version++
	if lost {
		proc.doubt[c] = true
		return
	}
	proc.knows[c] = work.member
	proc.takes(int8(c), work.member, rules)
	proc.work[c] = workModel{reporting, work.member, 0, work.read}
}

// report is the write of the status, under the version that was read.
func (s *adoptionModel) report(p, c int) {
	work := s.procs[p].work[c]
	s.procs[p].work[c] = workModel{}
	if claim := &s.claims[c]; claim.version == work.read {
		claim.told = work.member
		claim.version++
	}
}

// shown has a cache catch up with one member; what a process knows itself it then knows from there.
func (s *adoptionModel) shown(p, m int, rules adoptionRules) {
	proc := &s.procs[p]
	was, is := proc.seen[m], s.members[m]
	proc.seen[m] = is
	if was.owner != nobody && !was.gone && is.gone {
		proc.leaves(was.owner, int8(m), rules)
	}
	if is.owner != nobody && !is.gone && was.owner == nobody {
		proc.takes(is.owner, int8(m), rules)
	}
	for c := range proc.knows {
		if proc.knows[c] == int8(m) && proc.seen[m].owner == int8(c) {
			proc.knows[c] = nobody
		}
	}
}

// shownCold has a cache catch up with what was made for a claim.
func (s *adoptionModel) shownCold(p, c int, rules adoptionRules) {
	proc, is := &s.procs[p], s.claims[c].cold
	switch {
	case is && !proc.cold[c]:
		proc.takes(int8(c), coldPlace, rules)
		proc.made[c] = false
	case !is && proc.cold[c]:
		proc.leaves(int8(c), coldPlace, rules)
	}
	proc.cold[c] = is
}

// takes and leaves are capacity as it was: it counted one placement of each claim, beside others that it has.
func (proc *procModel) takes(claim, place int8, rules adoptionRules) {
	if !rules.counts && proc.counted[claim] == nobody {
		proc.counted[claim] = place
	}
}

func (proc *procModel) leaves(claim, place int8, rules adoptionRules) {
	if !rules.counts && proc.counted[claim] == place {
		proc.counted[claim] = nobody
	}
}

// next are all states that one step leads to.
func (s adoptionModel) next(rules adoptionRules, yield func(string, adoptionModel)) {
	step := func(name string, do func(*adoptionModel)) {
		after := s
		do(&after)
		if after != s {
			yield(name, after)
		}
	}
	for p := range rules.processes {
		for c := range modelClaims {
			switch s.procs[p].work[c].next {
			case idle:
				step(fmt.Sprint(p, " looks at ", c), func(s *adoptionModel) { s.look(p, c, rules) })
			case adopting:
				step(fmt.Sprint(p, " adopts for ", c), func(s *adoptionModel) { s.adopt(p, c, rules, false) })
				if s.lost > 0 {
					step(fmt.Sprint(p, " adopts for ", c, ", without an answer"), func(s *adoptionModel) { s.lost--; s.adopt(p, c, rules, true) })
				}
			case reporting:
				step(fmt.Sprint(p, " reports ", c), func(s *adoptionModel) { s.report(p, c) })
			}
			step(fmt.Sprint(p, "'s cache shows the cold placement of ", c), func(s *adoptionModel) { s.shownCold(p, c, rules) })
		}
		for m := range modelMembers {
			step(fmt.Sprint(p, "'s cache shows ", m), func(s *adoptionModel) { s.shown(p, m, rules) })
			seen, is := s.procs[p].seen[m], s.members[m]
			if seen.owner == nobody && !seen.leaving && !is.gone && (!rules.compares || seen.version == is.version) {
				step(fmt.Sprint("the set of ", p, " removes ", m), func(s *adoptionModel) {
					s.members[m].leaving, s.members[m].gone = true, true
					s.members[m].version++
				})
			}
		}
		if s.crashes > 0 {
			step(fmt.Sprint(p, " crashes"), func(s *adoptionModel) { s.crashes--; s.start(p) })
		}
	}
}

// settled is the state when all caches have caught up and everybody has looked again, often enough.
func (s adoptionModel) settled(rules adoptionRules) adoptionModel {
	for range 6 {
		for p := range rules.processes {
			for m := range modelMembers {
				s.shown(p, m, rules)
			}
			for c := range modelClaims {
				s.shownCold(p, c, rules)
				switch s.procs[p].work[c].next {
				case idle:
					s.look(p, c, rules)
				case adopting:
					s.adopt(p, c, rules, false)
				case reporting:
					s.report(p, c)
				}
			}
		}
	}
	return s
}

// wrong says what is wrong with a state.
func (s adoptionModel) wrong(rules adoptionRules) string {
	for c := range modelClaims {
		if n := s.places(c); n > 1 && rules.processes == 1 {
			return fmt.Sprintf("Sandbox %d has %d placements", c, n)
		}
	}
	end := s.settled(rules)
	for c := range modelClaims {
		if n := end.places(c); n != 1 {
			return fmt.Sprintf("in the end Sandbox %d has %d placements", c, n)
		}
	}
	return ""
}

// taken says what one step has taken from a Sandbox.
func taken(before, after adoptionModel) string {
	for m, was := range before.members {
		switch is := after.members[m]; {
		case was.owner != nobody && is.owner != was.owner:
			return fmt.Sprintf("member %d goes from Sandbox %d to %d", m, was.owner, is.owner)
		case was.owner != nobody && !was.gone && is.gone && before.claims[was.owner].told == int8(m):
			return fmt.Sprintf("Sandbox %d loses the placement that its status tells of", was.owner)
		}
	}
	for c, was := range before.claims {
		switch is := after.claims[c]; {
		case was.told != nobody && is.told != was.told:
			return fmt.Sprintf("Sandbox %d is told of a second placement", c)
		case was.told == coldPlace && was.cold && !is.cold:
			return fmt.Sprintf("Sandbox %d loses the placement that was made for it and that its status tells of", c)
		}
	}
	return ""
}

// exploreAdoption visits every state, and returns how many there are and the way to the first that is wrong.
func exploreAdoption(rules adoptionRules) (seen int, wrong string) {
	type visit struct {
		from *visit
		step string
		adoptionModel
	}
	first := newAdoptionModel(rules.size)
	known := map[adoptionModel]bool{first: true}
	queue := []*visit{{adoptionModel: first}}
	for len(queue) > 0 && wrong == "" {
		v := queue[0]
		queue = queue[1:]
		v.next(rules, func(step string, after adoptionModel) {
			if known[after] || wrong != "" {
				return
			}
			known[after] = true
			then := &visit{v, step, after}
			if wrong = taken(v.adoptionModel, after); wrong == "" {
				wrong = after.wrong(rules)
			}
			if wrong != "" {
				for at := then; at.from != nil; at = at.from {
					wrong = at.step + "; " + wrong
				}
			}
			queue = append(queue, then)
		})
	}
	return len(known), wrong
}

// One process leads. Its cache may show anything that was, and it may end at any step: no Sandbox ever has two placements, and
// no member two owners.
func TestNoOrderOfEventsGivesASandboxTwoPlacements(t *testing.T) {
	seen, wrong := exploreAdoption(allRules)
	if wrong != "" {
		t.Error(wrong)
	}
	t.Logf("%d states", seen)
}

// Two processes that both believe to lead: no member ever has two owners, each Sandbox comes down to one
// placement, and none loses the one that its status tells of.
func TestTwoLeadersComeDownToOnePlacement(t *testing.T) {
	rules := allRules
	rules.processes, rules.size = 2, 2
	seen, wrong := exploreAdoption(rules)
	if wrong != "" {
		t.Error(wrong)
	}
	t.Logf("%d states", seen)
}

// A model that finds nothing might look at nothing.
func TestTheModelOfAdoptionNeedsEachRule(t *testing.T) {
	for name, forget := range map[string]func(*adoptionRules){
		"the version of the member":           func(r *adoptionRules) { r.compares = false },
		"what was adopted a moment ago":       func(r *adoptionRules) { r.notes, r.asks, r.believes = false, false, false },
		"that an answer was lost":             func(r *adoptionRules) { r.doubts = false },
		"to keep what the status has told of": func(r *adoptionRules) { r.processes, r.size, r.tells = 2, 2, false },
		"to count each of two placements": func(r *adoptionRules) {
			r.processes, r.size, r.counts, r.believes = 2, 2, false, false
		},
		"to let the status decide which of two stays": func(r *adoptionRules) { r.processes, r.size, r.decides = 2, 2, false },
		"to believe a status":                         func(r *adoptionRules) { r.processes, r.size, r.believes = 2, 2, false },
	} {
		t.Run(name, func(t *testing.T) {
			rules := allRules
			forget(&rules)
			if seen, wrong := exploreAdoption(rules); wrong == "" {
				t.Errorf("%d states, and nothing is wrong with any", seen)
			} else {
				t.Log(wrong)
			}
		})
	}
}
