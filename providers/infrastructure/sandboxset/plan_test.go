// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package sandboxset

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/members"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// member is one of the present revision, so many minutes old, changed by words: "warm", "ready", "old"
// (of a former revision), "leaving", "going", "failing", "out" (not ready, and nothing says that it will not be),
// "waits" (for room).
func member(name string, minutes int, words ...string) members.Member {
	m := members.Member{Created: now.Add(-time.Duration(minutes) * time.Minute)}
	m.UID, m.Revision, m.State = types.UID(name), "present", placement.MemberMaking
	for _, word := range words {
		switch word {
		case "warm":
			m.State, m.Ready = placement.MemberWarm, true
		case "broken":
			m.State = placement.MemberWarm
		case "old":
			m.Revision = "former"
		case "leaving":
			m.State = placement.MemberLeaving
		case "going":
			m.State, m.Going = placement.MemberLeaving, true
		case "failing":
			m.Trouble = members.Trouble{Reason: "X", Failing: true, Since: now.Add(-time.Minute)}
		case "waits":
			m.Trouble = members.Trouble{Reason: "X", Waits: true, Since: now.Add(-time.Minute)}
		case "out":
			m.Trouble = members.Trouble{Reason: "X", Since: now.Add(-time.Minute)}
		case "given-up":
			m.Trouble = members.Trouble{Reason: "X", Failing: true, Since: now.Add(-failingKept)}
		}
	}
	return m
}

func invalidly(w wishes) wishes {
	w.invalid, w.untakeable = true, true
	return w
}

func aged(replicas int) wishes {
	w := wanted(replicas)
	w.maxAge = time.Hour
	return w
}

func wanted(replicas int) wishes {
	return wishes{replicas: replicas, starting: 2, missing: 1, revision: "present"}
}

func TestAPlanMakesWhatIsMissingAndRemovesWhatIsTooMuch(t *testing.T) {
	for name, test := range map[string]struct {
		wishes  wishes
		members []members.Member
		create  int
		remove  []string
		blocked bool
		again   time.Duration
	}{
		"nothing yet":               {wishes: wanted(5), create: 2},
		"some start":                {wishes: wanted(5), members: []members.Member{member("a", 1)}, create: 1, again: startingMost - time.Minute},
		"enough start":              {wishes: wanted(5), members: []members.Member{member("a", 1), member("b", 2)}, again: startingMost - 2*time.Minute},
		"one starts for long":       {wishes: wanted(1), members: []members.Member{member("a", 5)}, again: failingKept},
		"all start for long":        {wishes: wanted(3), members: []members.Member{member("a", 6), member("b", 6)}, blocked: true, again: failingKept - time.Minute},
		"one starts for ever":       {wishes: wanted(1), members: []members.Member{member("a", 10)}, remove: []string{"a"}},
		"one is out for long":       {wishes: wanted(1), members: []members.Member{member("a", 90, "broken", "out")}, again: startingMost - time.Minute},
		"all are there":             {wishes: wanted(1), members: []members.Member{member("a", 1, "warm")}},
		"one was taken":             {wishes: wanted(2), members: []members.Member{member("a", 1, "warm")}, create: 1},
		"one fails":                 {wishes: wanted(3), members: []members.Member{member("a", 1, "failing")}, create: 1, again: failingKept - time.Minute},
		"too many fail":             {wishes: wanted(3), members: []members.Member{member("a", 1, "failing"), member("b", 1, "failing")}, blocked: true, again: failingKept - time.Minute},
		"one fails for long":        {wishes: wanted(1), members: []members.Member{member("a", 9, "given-up")}, remove: []string{"a"}},
		"too many":                  {wishes: wanted(1), members: []members.Member{member("a", 1, "warm"), member("b", 2, "warm")}, remove: []string{"b"}},
		"too many, one starts":      {wishes: wanted(1), members: []members.Member{member("a", 1), member("b", 2, "warm")}, remove: []string{"a"}},
		"too many, one fails":       {wishes: wanted(1), members: []members.Member{member("a", 1), member("b", 2, "failing")}, remove: []string{"b"}, again: startingMost - time.Minute},
		"none wanted":               {wishes: wanted(0), members: []members.Member{member("a", 1), member("b", 2, "warm", "old")}, remove: []string{"a", "b"}},
		"one leaves":                {wishes: wanted(1), members: []members.Member{member("a", 1, "going")}, create: 1},
		"one was only marked":       {wishes: wanted(0), members: []members.Member{member("a", 1, "leaving")}, remove: []string{"a"}},
		"paused":                    {wishes: wishes{replicas: 3, paused: true, revision: "present"}, members: []members.Member{member("a", 1, "warm", "old"), member("b", 1, "leaving")}, remove: []string{"b"}},
		"another revision":          {wishes: wanted(3), members: []members.Member{member("a", 1, "warm", "old"), member("b", 2, "warm", "old"), member("c", 3, "warm", "old")}, create: 1, remove: []string{"a"}},
		"the only one is old":       {wishes: wanted(1), members: []members.Member{member("a", 1, "warm", "old")}, create: 1},
		"and its heir starts":       {wishes: wanted(1), members: []members.Member{member("a", 1, "warm", "old"), member("b", 1)}, again: startingMost - time.Minute},
		"not looked at yet":         {wishes: wanted(1), members: []members.Member{member("a", 90, "broken")}},
		"and its heir is ready":     {wishes: wanted(1), members: []members.Member{member("a", 1, "warm", "old"), member("b", 1, "warm")}, remove: []string{"a"}},
		"old and of no use":         {wishes: wanted(2), members: []members.Member{member("a", 1, "old"), member("b", 1, "broken", "old")}, create: 1, remove: []string{"a", "b"}},
		"waits for room for ever":   {wishes: aged(1), members: []members.Member{member("a", 900, "waits")}},
		"invalid, too few":          {wishes: invalidly(wanted(3)), members: []members.Member{member("a", 1, "warm")}},
		"invalid, too many":         {wishes: invalidly(wanted(1)), members: []members.Member{member("a", 1, "warm"), member("b", 2, "warm")}, remove: []string{"b"}},
		"invalid, one fails":        {wishes: invalidly(wanted(2)), members: []members.Member{member("a", 9, "given-up"), member("b", 1, "warm")}, remove: []string{"a"}},
		"invalid, of any revision":  {wishes: invalidly(wanted(2)), members: []members.Member{member("a", 1, "warm", "old"), member("b", 1, "warm")}},
		"invalid, not too old yet":  {wishes: invalidly(aged(1)), members: []members.Member{member("a", 59, "warm")}, again: time.Minute},
		"invalid, too old":          {wishes: invalidly(aged(1)), members: []members.Member{member("a", 60, "warm")}, remove: []string{"a"}},
		"renewed before it is old":  {wishes: aged(1), members: []members.Member{member("a", 54, "warm")}, create: 1, again: 6 * time.Minute},
		"which is looked at then":   {wishes: aged(1), members: []members.Member{member("a", 50, "warm")}, again: 4 * time.Minute},
		"and goes when its heir is": {wishes: aged(1), members: []members.Member{member("a", 55, "warm"), member("b", 1, "warm")}, remove: []string{"a"}, again: 5 * time.Minute},
		"too old": {
			wishes: wishes{replicas: 2, starting: 1, missing: 1, revision: "present", maxAge: time.Hour}, members: []members.Member{member("a", 60, "warm"), member("b", 59, "warm")},
			create: 1, remove: []string{"a"}, again: time.Minute,
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := planFor(test.wishes, test.members, now)
			var removed []string
			for _, m := range p.remove {
				removed = append(removed, string(m.UID))
			}
			slices.Sort(removed)
			if p.create != test.create || !slices.Equal(removed, test.remove) || p.blocked != test.blocked || p.again != test.again {
				t.Errorf("create %d, remove %v, blocked %v, again %v", p.create, removed, p.blocked, p.again)
			}
		})
	}
}

// From any set of members, in any order in which they come up or not, a set comes to what it wants, and is
// never without a member that can be taken if it had one and wants one.
func TestASetComesToWhatItWants(t *testing.T) {
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 1))
		w := wishes{replicas: random.IntN(6), starting: 1 + random.IntN(3), missing: 1 + random.IntN(3), revision: "present"}
		var all []members.Member
		kinds := [][]string{{}, {"warm"}, {"old"}, {"warm", "old"}, {"leaving"}, {"failing"}, {"broken"}}
		for i := range random.IntN(8) {
			all = append(all, member(fmt.Sprint("m", i), random.IntN(100), kinds[random.IntN(len(kinds))]...))
		}
		began := count(all, available)
		for step := 0; ; step++ {
			if step == 100 {
				t.Fatalf("seed %d: it does not settle: %+v", seed, all)
			}
			p := planFor(w, all, now.Add(time.Duration(step)*time.Minute))
			all = slices.DeleteFunc(all, func(m members.Member) bool { return p.removes(m) })
			if left := count(all, available); began > 0 && w.replicas > 0 && left == 0 {
				t.Fatalf("seed %d: none is left of %d", seed, began)
			}
			for i := range p.create {
				all = append(all, member(fmt.Sprint("m", step, "-", i), -step))
			}
			if unready := count(all, func(m members.Member) bool { return !available(m) }); p.create > 0 && unready > w.starting+count(all, func(m members.Member) bool { return m.Revision != w.revision }) {
				t.Fatalf("seed %d: %d start at once", seed, unready)
			}
			if len(p.remove) == 0 && p.create == 0 && count(all, available) == len(all) {
				break
			}
			if len(all) > 0 { // one of them comes up, or goes on failing
				if m := &all[random.IntN(len(all))]; m.State != placement.MemberLeaving && !m.Trouble.Failing {
					m.State, m.Ready = placement.MemberWarm, true
				}
			}
		}
		if len(all) != w.replicas || count(all, func(m members.Member) bool { return m.Revision == w.revision }) != w.replicas {
			t.Fatalf("seed %d: it wants %d and has %+v", seed, w.replicas, all)
		}
	}
}

// Members that were made together grow old together. They were all replaced at the same moment, and for that moment
// there was none.
func TestASetIsNeverWithoutMembersBecauseTheyGrowOld(t *testing.T) {
	w := wishes{replicas: 10, starting: 3, missing: 2, revision: "present", maxAge: 5 * time.Hour}
	var all []members.Member
	for i := range w.replicas {
		all = append(all, member(fmt.Sprint("m", i), 0, "warm"))
	}
	replaced := 0
	for minute := range 25 * 60 {
		at := now.Add(time.Duration(minute) * time.Minute)
		p := planFor(w, all, at)
		replaced += len(p.remove)
		all = slices.DeleteFunc(all, func(m members.Member) bool { return p.removes(m) })
		if n := count(all, w.available(at)); n < w.replicas-w.missing {
			t.Fatalf("after %d minutes %d can be taken", minute, n)
		}
		for i := range all { // each takes a minute to come up
			all[i].State, all[i].Ready = placement.MemberWarm, true
		}
		for i := range p.create {
			all = append(all, member(fmt.Sprint("m", minute, "-", i), -minute))
		}
	}
	if replaced < 4*w.replicas {
		t.Errorf("%d were replaced in 25 hours", replaced)
	}
}

func TestWishesHaveDefaultsAndALimit(t *testing.T) {
	w := wishesOf(&sandbarv1alpha1.SandboxSetSpec{Replicas: 9, MemberMaxAge: "24h"}, "r", 100)
	if w.replicas != 9 || w.starting != 3 || w.missing != 2 || w.maxAge != 24*time.Hour || w.bounded {
		t.Errorf("%+v", w)
	}
	spec := &sandbarv1alpha1.SandboxSetSpec{Replicas: 9}
	spec.ScaleStrategy.MaxUnavailable, spec.UpdateStrategy.MaxUnavailable = new(intstr.FromInt32(0)), new(intstr.FromString("100%"))
	if w := wishesOf(spec, "r", 4); w.replicas != 4 || w.starting != 1 || w.missing != 4 || !w.bounded || w.maxAge != 0 {
		t.Errorf("%+v", w)
	}
}
