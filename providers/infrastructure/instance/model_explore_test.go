// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !race || racemodels

package instance

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sandbar-dev/sandbar/pkg/inuse"
)

// modelEvent is something that goes wrong, or right again, between two ticks; it returns false where
// it cannot happen.
type modelEvent struct {
	name string
	do   func(*modelState) bool
}

// modelEvents are all of them.
func modelEvents() []modelEvent {
	var events []modelEvent
	add := func(name string, do func(*modelState) bool) { events = append(events, modelEvent{name, do}) }
	toggle := func(name string, flag func(*modelState) *bool) {
		add(name, func(s *modelState) bool { *flag(s) = !*flag(s); return true })
	}
	for i := range 2 {
		toggle(fmt.Sprintf("cut or join replica %d", i), func(s *modelState) *bool { return &s.replicas[i].cut })
		toggle(fmt.Sprintf("stop or continue replica %d", i), func(s *modelState) *bool { return &s.replicas[i].paused })
		toggle(fmt.Sprintf("suspend or resume the machine of replica %d", i), func(s *modelState) *bool { return &s.replicas[i].suspended })
		toggle(fmt.Sprintf("refuse the records of replica %d, or do not", i), func(s *modelState) *bool { return &s.replicas[i].mute })
		toggle(fmt.Sprintf("delay the next record of replica %d", i), func(s *modelState) *bool { return &s.replicas[i].slow })
		add(fmt.Sprintf("kill or start replica %d", i), func(s *modelState) bool {
			r := &s.replicas[i]
			*r = replicaState{
				up: !r.up, process: r.process + 2, cut: r.cut, mute: r.mute, suspended: r.suspended, clock: r.clock, heard: heardState{when: none}, beat: none, from: none,
				wrote: none, cache: s.record, delayed: r.delayed, arrives: r.arrives, current: r.current,
			}
			return true
		})
		jumps(add, fmt.Sprintf("replica %d", i), func(s *modelState) *clockState { return &s.replicas[i].clock })
	}
	toggle("stop or continue the controllers", func(s *modelState) *bool { return &s.control.paused })
	add("restart the controllers", func(s *modelState) bool {
		s.control = controllersState{clock: s.control.clock, heard: heardState{when: none}, looked: none}
		return true
	})
	jumps(add, "the controllers", func(s *modelState) *clockState { return &s.control.clock })
	jumps(add, "the API server", func(s *modelState) *clockState { return &s.server })
	for user := int8(-1); user < 2; user++ {
		add(fmt.Sprintf("the user turns to %d", user), func(s *modelState) bool {
			changes := s.user != user
			s.user = user
			return changes
		})
	}
	return events
}

// jumps sets a clock, one at a time: what two clocks agree on is taken for true.
func jumps(add func(string, func(*modelState) bool), whose string, clock func(*modelState) *clockState) {
	for _, to := range []ticks{-modelJump, 0, modelJump} {
		add(fmt.Sprintf("set the clock of %s by %v", whose, time.Duration(to)*modelTick), func(s *modelState) bool {
			if clock(s).set == to {
				return false
			}
			clock(s).set = 0
			for _, other := range []clockState{s.server, s.control.clock, s.replicas[0].clock, s.replicas[1].clock} {
				if other.set != 0 {
					return false
				}
			}
			clock(s).set = to
			return true
		})
	}
}

// plain drops from a state what cannot matter any more, so that states that do the same are the same.
func (s modelState) plain() modelState {
	old := func(t *ticks, than ticks) {
		if *t != none && *t < s.now-than {
			*t = s.now - than - 1
		}
	}
	old(&s.used, ticks(modelUnused/modelTick))
	old(&s.record.used, 20)
	old(&s.acquired, 20)
	for i := range s.replicas {
		r := &s.replicas[i]
		if !r.cut {
			r.cache, r.heard = recordState{}, heardState{}
		}
		if r.beat != none && s.now-r.beat-(r.clock.slept-r.beatClock.slept) > 2 {
			r.beat, r.beatClock = none, clockState{}
		}
		if r.from != none && time.Duration(s.now-r.from-(r.clock.slept-r.fromClock.slept))*modelTick >= time.Duration(r.lasts)*time.Second {
			r.from, r.fromClock, r.lasts = none, clockState{}, 0
		}
		if r.wrote != none && s.now-r.wrote-(r.clock.slept-r.wroteClock.slept) > 0 {
			r.wrote, r.wroteClock = none, clockState{}
		}
	}
	c := &s.control
	c.heard = heardState{}
	if c.stage == stageNone {
		c.looked, c.lookedClock, c.current = none, clockState{}, false
	}
	for i := range c.seen {
		old(&c.seen[i].at, 5)
	}
	return s
}

// explore tries every way in which at most so many of all events happen within so many ticks. It
// returns how many states it has seen, the ones that it ended in, and how something was taken that was
// in use.
func explore(rules modelRules, all []modelEvent, events, length int) (seen int, last map[modelState]int, wrong string) {
	level := map[modelState]int{newModel().plain(): 0}
	paths := map[modelState]string{}
	for range length {
		next := make(map[modelState]int, 2*len(level))
		nextPaths := map[modelState]string{}
		visit := func(from, s modelState, used int, event string) string {
			path := paths[from]
			if event != "" {
				path += fmt.Sprintf("\n  tick %d: %s", s.now, event)
			}
			if how := s.step(rules); how != "" {
				return fmt.Sprintf("%s %v after it was used:%s", how, time.Duration(s.now-s.used)*modelTick, path)
			}
			plain := s.plain()
			if before, ok := next[plain]; !ok || used < before {
				next[plain], nextPaths[plain] = used, path
			}
			return ""
		}
		for state, used := range level {
			if wrong = visit(state, state, used, ""); wrong != "" {
				return seen, nil, wrong
			}
			if used == events {
				continue
			}
			for _, event := range all {
				changed := state
				if !event.do(&changed) {
					continue
				}
				if wrong = visit(state, changed, used+1, event.name); wrong != "" {
					return seen, nil, wrong
				}
			}
		}
		seen += len(next)
		level, paths = next, nextPaths
	}
	return seen, level, ""
}

// modelSize is how much is explored: two events in four minutes, unless SANDBAR_MODEL_EVENTS says more.
func modelSize(t *testing.T) (events, length int) {
	events, length = 2, 16
	if s := os.Getenv("SANDBAR_MODEL_EVENTS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		events = n
	}
	return events, length
}

// The promise: whatever happens to replicas, controllers and clocks, no instance is put to sleep or
// deleted for being unused while a use of it lies within the duration; and when all is well again,
// what is unused is.
func TestNoFaultHasAnInstanceTakenThatIsInUse(t *testing.T) {
	for _, deletes := range []bool{false, true} {
		t.Run(map[bool]string{false: "put to sleep", true: "deleted"}[deletes], func(t *testing.T) {
			t.Parallel()
			rules := modelRules{deletes: deletes}
			events, length := modelSize(t)
			seen, last, wrong := explore(rules, modelEvents(), events, length)
			if wrong != "" {
				t.Fatal(wrong)
			}
			t.Logf("%d states, %d at the end", seen, len(last))
			every := 0
			for state := range last {
				if every++; every%50 != 0 { // they are much alike
					continue
				}
				if wrong := state.heal(rules); wrong != "" {
					t.Fatalf("%s: %+v", wrong, state)
				}
			}
		})
	}
}

// heal ends all faults and all use, and waits as long as anything may take: then the instance is taken.
func (s modelState) heal(rules modelRules) (wrong string) {
	s.user, s.server.set, s.control.clock.set, s.control.paused = -1, 0, 0, false
	for i := range s.replicas {
		r := &s.replicas[i]
		r.paused, r.cut, r.suspended, r.clock.set = false, false, false, 0
		r.mute, r.slow = false, false
		if !r.up && i == 0 {
			r.up = true // the other may stay away for good
		}
	}
	limit := s.now + ticks((inuse.GivenUpAfter+inuse.SilentAfter+inuse.Margin+modelUnused)/modelTick) + modelDelay + 10
	for s.now < limit {
		if wrong := s.step(rules); wrong != "" {
			return wrong
		}
		if s.deleted || s.asleep {
			return ""
		}
	}
	return "it is kept although nobody uses it"
}

// Long ways with many events, of which only some can be tried.
func TestNoMixOfFaultsHasAnInstanceTakenThatIsInUse(t *testing.T) {
	const runs, length = 1000, 60
	all := modelEvents()
	random := rand.New(rand.NewPCG(1, 2))
	for run := range runs {
		rules := modelRules{deletes: run%2 == 1}
		s, path := newModel(), []string{}
		for range length {
			if event := all[random.IntN(len(all))]; random.IntN(4) == 0 && event.do(&s) {
				path = append(path, fmt.Sprintf("tick %d: %s", s.now, event.name))
			}
			if wrong := s.step(rules); wrong != "" {
				t.Fatalf("%s %v after it was used:\n  %s", wrong, time.Duration(s.now-s.used)*modelTick, strings.Join(path, "\n  "))
			}
		}
		if wrong := s.heal(rules); wrong != "" {
			t.Fatalf("%s:\n  %s", wrong, strings.Join(path, "\n  "))
		}
	}
}

// A model that finds nothing may see nothing: each rule that is left out must show. The first is the
// bug of issue 12: one of two replicas is cut off, and the other's heartbeat stands for both.
func TestTheModelFindsEachRuleThatIsMissing(t *testing.T) {
	of0 := slices.DeleteFunc(modelEvents(), func(e modelEvent) bool { return !strings.Contains(e.name, "replica 0") })
	for name, c := range map[string]struct {
		rules  modelRules
		events int
		all    []modelEvent
	}{
		"use is recorded after it happened: sleep":    {modelRules{recordLater: true}, 1, modelEvents()},
		"use is recorded after it happened: deletion": {modelRules{recordLater: true, deletes: true}, 1, modelEvents()},
		"the controllers ignore what a record covers": {modelRules{ignoreCovers: true}, 1, modelEvents()},
		"nobody compares clocks":                      {modelRules{ownClocks: true}, 1, modelEvents()},
		"coverage goes by the monotonic clock":        {modelRules{monotonicOnly: true}, 3, of0},
		"a record is written whatever the Lease says": {modelRules{blindWrites: true}, 2, modelEvents()},
		"an instance is deleted without a claim":      {modelRules{noClaim: true, deletes: true}, 2, modelEvents()},
	} {
		t.Run(name, func(t *testing.T) {
			for events := range c.events + 1 {
				if _, _, wrong := explore(c.rules, c.all, events, 12); wrong != "" {
					t.Logf("with %d events: %s", events, wrong)
					return
				}
			}
			t.Error("the model does not notice")
		})
	}
}
