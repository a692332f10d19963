// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package top

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
	"k8s.io/apimachinery/pkg/util/duration"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/termsafe"
)

// Row is a sandbox: an object of a kind that a Template defines, as sandbar get shows it.
type Row struct {
	// Resource is the resource of its kind as --resource takes it, sandboxes.v1alpha1.sandbar.dev for example.
	Resource string
	// Kind is the singular of its kind. Namespace, Name and UID are the object's.
	Kind, Namespace, Name, UID string
	// Template, State and Start (Warm, Cold or empty) are those of the table of sandbar get.
	Template, State, Start string
	// Reason is the state with what the condition Ready says of it; it may have several lines.
	Reason string
	// Created, Used and Shutdown are zero if the object has no such time.
	Created, Used, Shutdown time.Time
}

// key is what identifies a row in the list.
type key struct{ resource, namespace, name string }

func (r Row) key() key { return key{r.Resource, r.Namespace, r.Name} }

// Asleep reports whether the sandbox has no pods, or is giving them up: its log is what was kept of it.
func (r Row) Asleep() bool {
	return slices.Contains([]sandbarv1alpha1.InstancePhase{
		sandbarv1alpha1.InstanceSuspending, sandbarv1alpha1.InstanceSuspended, sandbarv1alpha1.InstanceSleeping,
	}, sandbarv1alpha1.InstancePhase(r.State))
}

// safe returns the row with texts that a terminal can show.
func (r Row) safe() Row {
	for _, text := range []*string{&r.Kind, &r.Namespace, &r.Name, &r.Template, &r.State, &r.Start} {
		*text = termsafe.Line(*text)
	}
	first, _, _ := strings.Cut(strings.TrimSpace(r.Reason), "\n")
	r.Reason = termsafe.Line(first)
	return r
}

// The words for what an object does not have are those of sandbar get.
const (
	none  = "<none>"
	never = "never"
)

// age is the time since a moment.
func age(moment, now time.Time) string {
	if moment.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(max(0, now.Sub(moment))) // this machine's clock may be behind
}

// idle is how long nobody has used a sandbox.
func (r Row) idle(now time.Time) string {
	if r.Used.IsZero() {
		return none
	}
	return age(r.Used, now)
}

// expires is how long a sandbox has until its shutdown time.
func (r Row) expires(now time.Time) string {
	switch {
	case r.Shutdown.IsZero():
		return never
	case !r.Shutdown.After(now):
		return "expired"
	}
	return duration.HumanDuration(r.Shutdown.Sub(now))
}

// Cells are what the view shows of the row at a moment, in the order of its columns: NAME, NAMESPACE, KIND, TEMPLATE,
// STATE, AGE, IDLE, EXPIRES and START.
func (r Row) Cells(now time.Time) []string {
	return []string{
		r.Name, r.Namespace, r.Kind, r.Template, r.State,
		age(r.Created, now), r.idle(now), r.expires(now), cmp.Or(r.Start, none),
	}
}

// entry is a row of the list with what is found out once.
type entry struct {
	Row
	// text is what the filter looks at, in lower case.
	text string
	// widths are those of the texts that time does not change, in cells of the terminal.
	widths [columnAge]int
	rank   int
}

func newEntry(r Row) *entry {
	r = r.safe()
	e := &entry{Row: r, rank: rankOf(r.State)}
	texts := []string{r.Name, r.Namespace, r.Kind, r.Template, r.State}
	for i, text := range texts {
		e.widths[i] = ansi.StringWidth(text)
	}
	e.text = strings.ToLower(strings.Join(append(texts, r.Start), " "))
	return e
}

// states are in the order in which a person looks for them: first those that need somebody.
var states = []string{
	string(sandbarv1alpha1.InstanceFailed), string(sandbarv1alpha1.InstanceDegraded), string(sandbarv1alpha1.InstancePendingCapacity),
	string(sandbarv1alpha1.InstancePending), string(sandbarv1alpha1.InstanceMaterializing), string(sandbarv1alpha1.InstanceWaking),
	string(sandbarv1alpha1.InstanceReady),
	string(sandbarv1alpha1.InstanceSuspending), string(sandbarv1alpha1.InstanceSleeping), string(sandbarv1alpha1.InstanceSuspended),
	string(sandbarv1alpha1.InstanceDeleting),
}

// rankOf is where the group of a state stands. One that this version does not know stands last.
func rankOf(state string) int {
	if at := slices.Index(states, state); at >= 0 {
		return at
	}
	return len(states)
}
