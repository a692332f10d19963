// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !race || racemodels

package instance

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/inuse"
	"github.com/sandbar-dev/sandbar/pkg/inuse/clocktest"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/lifecycle"
)

// The model is two replicas of the data plane, the controllers, an API server and one instance, in
// steps of modelTick. What decides in it is the product's own code: inuse.Look, Record, Coverage, Fence
// and Clock, and decide. What surrounds that code is here: who is up, who reaches whom, what each
// clock says. A model's state is a value, so that states can be compared and kept.

const (
	modelTick     = 15 * time.Second
	modelInterval = modelTick     // at most this between two records of an instance in use
	modelUnused   = 4 * modelTick // sleepAfterUnused or deleteAfterUnused
	// modelDelay is how late a write arrives that was delayed, in ticks: later than any API server
	// answers.
	modelDelay = 6
	// modelJump is by how much a clock is set, in ticks: an hour.
	modelJump = 240
)

// modelEpoch has a monotonic clock; readings of all processes derive from it.
var modelEpoch = time.Now()

// ticks is a moment, in ticks since modelEpoch; none is no moment.
type ticks int16

const none ticks = -9999

// clockState is a machine's clock: by how many ticks its wall clock is set wrong, and for how many its
// monotonic clock stood still, because the machine was suspended.
type clockState struct{ set, slept ticks }

// at reads the clock at a true moment.
func (c clockState) at(now ticks) time.Time {
	mono := modelEpoch.Add(time.Duration(now-c.slept) * modelTick)
	return clocktest.SetWall(mono, time.Duration(c.slept+c.set)*modelTick)
}

// wall is a time as it is written into a Lease.
func wall(t ticks) time.Time { return modelEpoch.Round(0).Add(time.Duration(t) * modelTick) }

// heardState is what a process heard of the API server's clock, and the true moment and the own clock
// of that.
type heardState struct {
	server ticks
	when   ticks
	own    clockState
}

// clock makes the product's clock of it, at a true moment.
func (h heardState) clock(own clockState, now ticks) *inuse.Clock {
	reading := h.own.at(h.when)
	c := &inuse.Clock{Local: func() time.Time { return reading }}
	if h.when != none {
		c.Heard(inuse.Runtime, wall(h.server))
	}
	reading = own.at(now)
	return c
}

// recordState is the instance's Lease. Times are those that are written.
type recordState struct {
	used   ticks
	covers int16 // seconds
	ending bool
}

func (r recordState) record() inuse.Record {
	return inuse.Record{Used: wall(r.used), Covers: time.Duration(r.covers) * time.Second, Ending: r.ending}
}

// leaseState is a Lease of the data plane; holder counts processes.
type leaseState struct {
	exists  bool
	holder  int8
	renewed ticks
}

// seenState is an inuse.Sighting; at is by the controllers' clock.
type seenState struct {
	known   bool
	holder  int8
	renewed ticks
	at      ticks
	ahead   ticks
}

// replicaState is one replica of the data plane.
type replicaState struct {
	up, paused, suspended bool
	// cut is set while it does not reach the API server, mute while it alone cannot record, and slow
	// until its next record, which is delayed.
	cut, mute, slow bool
	process         int8
	clock           clockState
	heard           heardState
	// beat is when the renewal was sent that came back last, and from when and for how many seconds
	// the instance is covered; with the clock of that moment.
	beat, from           ticks
	beatClock, fromClock clockState
	lasts                int16
	// wrote is when it last recorded, for the interval.
	wrote      ticks
	wroteClock clockState
	// cache is the Lease as its watch has it.
	cache recordState
	// delayed is a record that is on its way: used, when it arrives, and whether the Lease is still the
	// one that it was decided by.
	delayed, arrives ticks
	current          bool
}

// Stages of a deletion.
const (
	stageNone = iota
	stageLooked
	stageClaimed
)

// controllersState are the controllers.
type controllersState struct {
	paused bool
	clock  clockState
	heard  heardState
	seen   [3]seenState // the shared Lease, and the replicas'
	// stage is how far a deletion is, looked when it was begun; current as in replicaState.
	stage       int8
	looked      ticks
	lookedClock clockState
	current     bool
}

// modelState is everything.
type modelState struct {
	now      ticks
	server   clockState // the API server's clock
	record   recordState
	shared   leaseState
	acquired ticks
	leases   [2]leaseState
	replicas [2]replicaState
	control  controllersState
	// user is the replica that a user calls all the time: -1 for nobody.
	user int8
	// used is when a request last reached the instance, in truth.
	used            ticks
	asleep, deleted bool
}

// modelRules can weaken the product's rules, to show that the model notices.
type modelRules struct {
	deletes bool // the instance has deleteAfterUnused, not sleepAfterUnused
	// Each of these leaves a rule out.
	recordLater   bool // use is recorded after it happened, as one heartbeat for all replicas had it
	ignoreCovers  bool // the controllers do not allow for what a record covers
	ownClocks     bool // nobody compares clocks
	monotonicOnly bool // coverage goes by the monotonic clock alone
	blindWrites   bool // a record is written whatever the Lease says by now
	noClaim       bool // an instance is deleted without a mark on its Lease
}

func newModel() modelState {
	s := modelState{user: 0, used: 0, record: recordState{used: 0}, acquired: -100, shared: leaseState{exists: true, renewed: 0}}
	s.control = controllersState{heard: heardState{when: none}, looked: none}
	for i := range s.replicas {
		s.leases[i] = leaseState{exists: true, holder: int8(i + 1), renewed: 0}
		s.replicas[i] = replicaState{
			up: true, process: int8(i + 1), heard: heardState{when: none}, beat: 0, from: none, wrote: none, cache: s.record, delayed: none, arrives: none,
		}
	}
	return s
}

// leasesOf are the Leases in sandbar-system.
func (s *modelState) leasesOf() []coordinationv1.Lease {
	var list []coordinationv1.Lease
	add := func(name string, l leaseState, own bool) {
		if !l.exists {
			return
		}
		lease := coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}}
		holder := string('a' + rune(l.holder))
		lease.Spec.HolderIdentity = &holder
		lease.Spec.RenewTime = &metav1.MicroTime{Time: wall(l.renewed)}
		if own {
			lease.Labels = map[string]string{placement.LabelReplica: holder}
		} else {
			lease.Spec.AcquireTime = &metav1.MicroTime{Time: wall(s.acquired)}
		}
		list = append(list, lease)
	}
	add(placement.DataPlaneLease, s.shared, false)
	for i := range s.leases {
		add(modelLeases[i+1], s.leases[i], true)
	}
	return list
}

var modelLeases = [3]string{placement.DataPlaneLease, "r0", "r1"}

// judge has the product judge, and keeps what it has seen.
func (s *modelState) judge(clock *inuse.Clock) inuse.Verdict {
	c := &s.control
	before := inuse.Sightings{}
	for i, seen := range c.seen {
		if seen.known {
			before[modelLeases[i]] = inuse.Sighting{
				Holder: string('a' + rune(seen.holder)), Renewed: wall(seen.renewed),
				At: clockState{}.at(seen.at), Ahead: time.Duration(seen.ahead) * modelTick,
			}
		}
	}
	verdict, after := inuse.Look(s.leasesOf(), before, clock)
	for i, l := range [3]leaseState{s.shared, s.leases[0], s.leases[1]} {
		sighting, ok := after[modelLeases[i]]
		if !ok {
			c.seen[i] = seenState{}
			continue
		}
		age := ticks(clock.Now().Sub(sighting.At) / modelTick)
		c.seen[i] = seenState{known: true, holder: l.holder, renewed: l.renewed, at: s.now - age, ahead: ticks(sighting.Ahead / modelTick)}
	}
	return verdict
}

// serverNow is what the API server's clock says.
func (s *modelState) serverNow() ticks { return s.now + s.server.set }

// write changes the instance's Lease: a decision by its former content is too late.
func (s *modelState) write(r recordState) {
	s.record = r
	for i := range s.replicas {
		s.replicas[i].current = false
	}
	s.control.current = false
}

// ticksOf turns a time that is to be written into ticks.
func ticksOf(t time.Time) ticks { return ticks(t.Round(0).Sub(modelEpoch.Round(0)) / modelTick) }

// replicaStep is what one replica does in a tick.
func (s *modelState) replicaStep(i int, rules modelRules) {
	r := &s.replicas[i]
	if r.arrives == s.now { // on its way, whatever has become of the replica
		if (r.current || rules.blindWrites) && !s.deleted {
			s.write(recordState{used: r.delayed, covers: coversSeconds, ending: s.record.ending})
		}
		r.delayed, r.arrives, r.current = none, none, false
	}
	if r.suspended {
		r.clock.slept++
	}
	if !r.up || r.paused || r.suspended {
		return
	}
	if !r.cut {
		r.heard, r.cache = heardState{s.serverNow(), s.now, r.clock}, s.record
	}
	clock := r.heard.clock(r.clock, s.now)
	if rules.ownClocks {
		clock = &inuse.Clock{Local: clock.Local}
	}
	var fence inuse.Fence
	if !r.cut {
		s.beat(i, clock)
		r.beat, r.beatClock = s.now, r.clock
	}
	if r.beat != none {
		fence.Renew(r.beatClock.at(r.beat))
	}
	open := fence.Open(clock.Now()) || rules.recordLater
	if open && !r.cut {
		s.beatShared(int8(i), clock)
	}
	if int(s.user) != i || !open || s.deleted {
		return
	}
	if s.recorded(i, clock, rules) && !s.asleep {
		s.used = s.now
	}
}

const coversSeconds = int16((modelInterval + inuse.Grace) / time.Second)

// beat renews a replica's own Lease.
func (s *modelState) beat(i int, clock *inuse.Clock) {
	s.leases[i] = leaseState{exists: true, holder: s.replicas[i].process, renewed: ticksOf(clock.Later())}
}

// beatShared renews the Lease that all replicas share, by the rule of dataplane's nextBeat.
func (s *modelState) beatShared(holder int8, clock *inuse.Clock) {
	now := ticksOf(clock.Later())
	age := time.Duration(now-s.shared.renewed) * modelTick
	if age.Abs() > inuse.SilentAfter {
		s.acquired = now
	} else if age <= 0 {
		return
	}
	s.shared.renewed, s.shared.holder = now, holder
}

// recorded has the use recorded that a request is about to be, and reports whether it may be. It does
// what dataplane's activity does around the product's rules.
func (s *modelState) recorded(i int, clock *inuse.Clock, rules modelRules) bool {
	r := &s.replicas[i]
	local, later := clock.Now(), clock.Later()
	covered := func() bool {
		if r.from == none {
			return false
		}
		c := &inuse.Coverage{From: r.fromClock.at(r.from), For: time.Duration(r.lasts) * time.Second}
		if rules.monotonicOnly {
			return c.For-local.Sub(c.From) > 0
		}
		return c.Left(local) > 0
	}
	cover := func(c *inuse.Coverage) {
		r.from, r.fromClock, r.lasts = s.now, r.clock, int16(c.For/time.Second)
	}
	if !covered() {
		if known := r.cache.record(); known.Current(later, modelInterval) {
			cover(known.Covering(local, later, modelInterval))
		}
	}
	due := r.wrote == none || local.Sub(r.wroteClock.at(r.wrote)) >= modelInterval // timers are monotonic
	if !covered() || due {
		s.tryWrite(i, local, later, rules, cover)
	}
	return covered() || rules.recordLater
}

// tryWrite is one write of a record.
func (s *modelState) tryWrite(i int, local, later time.Time, rules modelRules, cover func(*inuse.Coverage)) {
	r := &s.replicas[i]
	known := r.cache
	if !r.cut {
		known = s.record // by the version that is named: one that has changed is read again
	}
	used, current := known.record().Extend(local, later, 0, modelInterval)
	if current != nil {
		cover(current)
		return
	}
	if r.cut || r.mute {
		return
	}
	if r.slow {
		r.slow, r.delayed, r.arrives, r.current = false, ticksOf(used), s.now+modelDelay, true
		return
	}
	s.write(recordState{used: ticksOf(used), covers: coversSeconds, ending: s.record.ending})
	r.cache = s.record
	if s.record.ending && !rules.noClaim {
		return // the answer shows the mark: nobody is let through
	}
	r.wrote, r.wroteClock = s.now, r.clock
	cover(inuse.Covered(local, later, used, modelInterval))
}

// controlStep is one step of the controllers: a look that puts to sleep, or a step of a deletion. It
// returns what it did wrong.
func (s *modelState) controlStep(rules modelRules) (wrong string) {
	c := &s.control
	if c.paused || s.deleted {
		return ""
	}
	c.heard = heardState{s.serverNow(), s.now, c.clock}
	clock := c.heard.clock(c.clock, s.now)
	if rules.ownClocks {
		clock = &inuse.Clock{Local: clock.Local}
	}
	switch c.stage {
	case stageLooked:
		c.stage = stageNone
		if !c.current && !rules.noClaim {
			return "" // used since: the claim is refused
		}
		if !rules.noClaim {
			ending := s.record
			ending.ending = true
			s.write(ending)
		}
		c.stage = stageClaimed
		return ""
	case stageClaimed:
		c.stage = stageNone
		if inuse.Elapsed(c.lookedClock.at(c.looked), clock.Now()) <= lookLasts {
			s.deleted = true
			return s.judgeTaking("deleted")
		}
	}
	d := s.decide(clock, rules)
	switch {
	case d.Deleted != "":
		c.stage, c.looked, c.lookedClock, c.current = stageLooked, s.now, c.clock, true
	case d.Rests && !s.asleep:
		s.asleep = true
		return s.judgeTaking("put to sleep")
	case !d.Rests:
		s.asleep = false
	}
	return ""
}

// decide is what ensureLease and schedule do.
func (s *modelState) decide(clock *inuse.Clock, rules modelRules) lifecycle.Decision {
	verdict := s.judge(clock)
	if verdict.Anew {
		s.acquired = ticksOf(clock.Later())
	}
	for _, lease := range verdict.Forget {
		for i := range s.leases {
			if lease.Name == modelLeases[i+1] {
				s.leases[i] = leaseState{}
			}
		}
	}
	touched := s.record
	touched.ending = false
	if !touched.record().Believable(clock.Later()) {
		touched.used = ticksOf(clock.Later())
	}
	if touched != s.record {
		s.write(touched)
	}
	r := s.record.record()
	u := lifecycle.Use{Last: r.Used, Lag: r.Lag(modelInterval), Resting: s.asleep}
	if rules.ignoreCovers {
		u.Lag = modelInterval
	}
	u.Allowed(verdict)
	if rules.recordLater { // then one Lease stood for all replicas
		u.KeepAwake, u.Keep = u.Possible.IsZero(), u.Possible.IsZero()
	}
	t := lifecycle.Terms{Lifecycle: sandbarv1alpha1.Lifecycle{SleepAfterUnused: &metav1.Duration{Duration: modelUnused}}}
	if rules.deletes {
		t.Lifecycle = sandbarv1alpha1.Lifecycle{DeleteAfterUnused: &metav1.Duration{Duration: modelUnused}}
	}
	now := clock.Earlier()
	if rules.ownClocks {
		now = clock.Now()
	}
	return lifecycle.Decide(t, u, now)
}

// judgeTaking is the invariant: nothing is taken of which a use lies within the duration.
func (s *modelState) judgeTaking(how string) string {
	if time.Duration(s.now-s.used)*modelTick < modelUnused {
		return how
	}
	return ""
}

// step is one tick. The controllers act between the replicas, so that every order is tried.
func (s *modelState) step(rules modelRules) (wrong string) {
	s.now++
	for i := range s.replicas {
		if wrong = s.controlStep(rules); wrong != "" {
			return wrong
		}
		s.replicaStep(i, rules)
	}
	return s.controlStep(rules)
}
