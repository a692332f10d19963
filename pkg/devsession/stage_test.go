// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package devsession

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

var began = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func TestASwitchGoesOnWhenTheNextPodsAreReady(t *testing.T) {
	serves := Seen{SessionReady: true, CopyReady: true, ToCopy: true}
	for name, c := range map[string]struct {
		stage  Stage
		passed time.Duration
		ends   bool
		seen   Seen
		want   Stage
		again  time.Duration
	}{
		"a session that starts waits for its pod":                          {stage: Beside, seen: Seen{CopyReady: true}, want: Beside},
		"one that is ready gets the Service":                               {stage: Beside, seen: serves, want: Serving, again: lookAgain},
		"the copy stays until the endpoints are the session's":             {stage: Serving, seen: serves, want: Serving, again: lookAgain},
		"then the last requests to it may end":                             {stage: Serving, seen: Seen{SessionReady: true, ToSession: true}, want: Draining, again: Drain},
		"for a while":                                                      {stage: Draining, passed: 4 * time.Second, seen: serves, want: Draining, again: 6 * time.Second},
		"and then the copy stops":                                          {stage: Draining, passed: Drain, seen: serves, want: Alone},
		"a session that breaks while the copy runs gives the Service back": {stage: Serving, seen: Seen{CopyReady: true}, want: Beside},
		"also while the copy's last requests end":                          {stage: Draining, passed: time.Second, seen: Seen{CopyReady: true}, want: Beside},
		"one that breaks alone stays":                                      {stage: Alone, seen: Seen{}, want: Alone},
		"nothing changes while there are no pods":                          {stage: Draining, passed: time.Hour, seen: Seen{Rests: true}, want: Draining},

		"a session that served nothing goes at once":             {stage: Beside, ends: true, seen: serves, want: Gone},
		"one that serves alone has the copy come back":           {stage: Alone, ends: true, seen: Seen{SessionReady: true}, want: Returning},
		"and so has one that serves beside it":                   {stage: Serving, ends: true, seen: serves, want: Returning},
		"the Service stays until the copy is ready":              {stage: Returning, ends: true, seen: Seen{SessionReady: true}, want: Returning, again: lookAgain},
		"and then leads to the copy":                             {stage: Returning, ends: true, seen: serves, want: Leaving, again: lookAgain},
		"a session that is broken gives nothing up by leaving":   {stage: Returning, ends: true, seen: Seen{}, want: Leaving, again: lookAgain},
		"a copy that does not come up is not waited for forever": {stage: Returning, passed: Patience, ends: true, seen: Seen{SessionReady: true}, want: Leaving, again: lookAgain},
		"the session stays until no endpoint is its own":         {stage: Leaving, ends: true, seen: Seen{SessionReady: true, CopyReady: true}, want: Leaving, again: lookAgain},
		"then its last requests may end":                         {stage: Leaving, ends: true, seen: serves, want: Left, again: Drain},
		"endpoints are not waited for forever":                   {stage: Leaving, passed: Patience, ends: true, seen: Seen{}, want: Left, again: Drain},
		"for a while, too":                                       {stage: Left, passed: time.Second, ends: true, seen: serves, want: Left, again: 9 * time.Second},
		"and then it goes":                                       {stage: Left, passed: Drain, ends: true, seen: serves, want: Gone},
		"without pods it goes at once":                           {stage: Alone, ends: true, seen: Seen{Rests: true}, want: Gone},
		"what has gone stays gone":                               {stage: Gone, seen: serves, want: Gone},
		"the way out does not turn":                              {stage: Leaving, seen: serves, want: Left, again: Drain},
	} {
		t.Run(name, func(t *testing.T) {
			next, again := Next(c.stage, began, c.ends, c.seen, began.Add(c.passed))
			if next != c.want || again != c.again {
				t.Errorf("%s, again after %s; want %s, %s", next, again, c.want, c.again)
			}
		})
	}
}

// cluster is a model of what kro and Kubernetes make of a stage: slowly, one thing after the other, in any order.
type cluster struct {
	random         *rand.Rand
	copyRuns       bool // has pods that are ready
	sessionRuns    bool
	sessionServed  bool // the endpoints are those of the session
	wanted         Stage
	sessionBreaks  bool
	copyNeverReady bool
}

// settle has one thing of what is wanted come true.
func (c *cluster) settle() {
	switch c.random.IntN(3) {
	case 0:
		c.copyRuns = !c.wanted.StopsCopy() && (c.copyRuns || !c.copyNeverReady)
	case 1:
		c.sessionRuns = c.wanted != Gone && (!c.sessionBreaks || c.random.IntN(4) != 0)
	case 2:
		c.sessionServed = c.wanted.LeadsToSession()
	}
}

func (c *cluster) seen() Seen {
	return Seen{
		SessionReady: c.sessionRuns, CopyReady: c.copyRuns, ToCopy: !c.sessionServed, ToSession: c.sessionServed && c.sessionRuns,
	}
}

// In any order of events, the pods that get the requests run, unless a session that serves alone breaks or a copy does not come up; and
// each session that ends is gone in the end.
func TestNoOrderOfEventsLeadsRequestsToNobody(t *testing.T) {
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 1))
		c := &cluster{random: random, copyRuns: true, wanted: Beside}
		stage, since, now := Beside, began, began
		endsAt := random.IntN(200)
		for step := range 600 {
			now = now.Add(time.Duration(random.IntN(3)) * time.Second)
			c.settle()
			served := c.copyRuns
			if c.sessionServed {
				served = c.sessionRuns
			}
			if !served && stage != Gone {
				t.Fatalf("seed %d, step %d: at stage %s nobody gets the requests: %+v", seed, step, stage, c)
			}
			next, _ := Next(stage, since, step >= endsAt, c.seen(), now)
			if next != stage {
				stage, since = next, now
			}
			c.wanted = stage
		}
		if stage != Gone {
			t.Fatalf("seed %d: the session ends at %s", seed, stage)
		}
	}
}

// A session that breaks at any time, and a copy that never comes back, keep no session from ending.
func TestASessionEndsWhateverBreaks(t *testing.T) {
	for seed := range uint64(500) {
		random := rand.New(rand.NewPCG(seed, 2))
		c := &cluster{random: random, copyRuns: true, wanted: Beside, sessionBreaks: true, copyNeverReady: seed%2 == 0}
		stage, since, now := Beside, began, began
		var path []Stage
		for step := range 900 {
			now = now.Add(time.Second)
			c.settle()
			next, _ := Next(stage, since, step >= 100, c.seen(), now)
			if next != stage {
				stage, since = next, now
				path = append(path, next)
			}
			c.wanted = stage
		}
		if stage != Gone {
			t.Fatal(fmt.Sprintf("seed %d: it went", seed), path)
		}
	}
}

func TestWhatAStageMeans(t *testing.T) {
	for stage, c := range map[Stage]struct{ leads, stops, ends bool }{
		Beside: {}, Serving: {leads: true}, Draining: {leads: true}, Alone: {leads: true, stops: true},
		Returning: {leads: true, ends: true}, Leaving: {ends: true}, Left: {ends: true}, Gone: {ends: true},
	} {
		if stage.LeadsToSession() != c.leads || stage.StopsCopy() != c.stops || stage.Ends() != c.ends {
			t.Errorf("%s leads to the session: %t, stops the copy: %t, ends: %t", stage, stage.LeadsToSession(), stage.StopsCopy(), stage.Ends())
		}
	}
}

func TestARecordSaysSinceWhenItsStageIs(t *testing.T) {
	r := Record{}.At(Beside, began.Add(300*time.Millisecond))
	if r.Stage != Beside || !r.Since.Equal(began) {
		t.Errorf("%+v", r)
	}
	if same := r.At(Beside, began.Add(time.Hour)); !same.Since.Equal(began) {
		t.Errorf("the same stage begins again: %+v", same)
	}
}
