// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package adoptions

import "github.com/anishathalye/porcupine"

// operation is a Version or a Take with the time in which it was.
func operation(input any) porcupine.Operation {
	op := porcupine.Operation{Input: input}
	switch in := input.(type) {
	case Version:
		op.Call, op.Return = in.Revision, in.Revision
	case Take:
		op.Call, op.Return = in.Began, in.Ended
	}
	return op
}

// byPlacement are the operations on each placement.
func byPlacement(versions []Version, takes []Take) map[string][]porcupine.Operation {
	histories := map[string][]porcupine.Operation{}
	for _, v := range versions {
		histories[v.Placement] = append(histories[v.Placement], operation(v))
	}
	for _, t := range widest(takes) {
		histories[t.Placement] = append(histories[t.Placement], operation(t))
	}
	return histories
}

// widest has one take for each Sandbox and placement, of the whole time in which statuses told of it: what it took
// once it does not take again.
func widest(takes []Take) (list []Take) {
	for _, t := range takes {
		merged := false
		for i := range list {
			if list[i].Sandbox == t.Sandbox && list[i].Placement == t.Placement {
				list[i].Began, list[i].Ended = min(list[i].Began, t.Began), max(list[i].Ended, t.Ended)
				merged = true
			}
		}
		if !merged {
			list = append(list, t)
		}
	}
	return list
}

// bySandbox are the operations of each Sandbox, with the versions of the placements that have it as their owner.
func bySandbox(versions []Version, takes []Take) map[string][]porcupine.Operation {
	histories := map[string][]porcupine.Operation{}
	for _, t := range widest(takes) {
		histories[t.Sandbox] = append(histories[t.Sandbox], operation(t))
	}
	for _, v := range versions {
		if v.Owner != "" {
			histories[v.Owner] = append(histories[v.Owner], operation(v))
		}
	}
	return histories
}

// placement is the state of one placement.
type placement struct {
	owner         string
	leaving, gone bool
}

// placements is a register that is written at most once: a take writes the owner, a version reads it. What is gone
// does not come back, and what is leaving is not taken.
var placements = porcupine.Model{
	Init: func() any { return placement{} },
	Step: func(state, input, _ any) (bool, any) {
		s, _ := state.(placement)
		switch op := input.(type) {
		case Take:
			if s != (placement{}) {
				return false, s
			}
			return true, placement{owner: op.Sandbox}
		case Version:
			if s.gone || op.Owner != s.owner {
				return false, s
			}
			if op.Owner == "" && s.leaving && !op.Leaving && !op.Gone {
				return false, s
			}
			s.leaving = s.leaving || op.Owner == "" && op.Leaving
			s.gone = op.Gone
			return true, s
		}
		return false, s
	},
}

// sandboxes is the placement of one Sandbox, which a take writes once, and which the versions of the placements that it
// owns read.
var sandboxes = porcupine.Model{
	Init: func() any { return "" },
	Step: func(state, input, _ any) (bool, any) {
		has, _ := state.(string)
		switch op := input.(type) {
		case Take:
			return has == "", op.Placement
		case Version:
			return has == op.Placement, has
		}
		return false, has
	},
}
