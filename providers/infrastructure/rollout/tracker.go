// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/event"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/pause"
)

const (
	// gather is how long news of instances are gathered before turns are granted.
	gather = 200 * time.Millisecond
	// forgetAfter is how long an instance is remembered whose placement is not there.
	forgetAfter = time.Minute
)

// Config is what a Template says of its rollout.
type Config struct {
	Settings
	// Provider is the logical cluster of the provider workspace.
	Provider string
	// Target is the Template's present revision.
	Target string
	// New are the fields of the spec that no former revision knows.
	New []Field
	// WasPaused is that of Request.
	WasPaused bool
}

// Field is a field of an instance's spec.
type Field struct {
	// Path leads to it from the spec.
	Path []string
	// Default is its value if nobody has set another; nil if it has none.
	Default any
}

// setIn reports whether the spec says something else in the field than its default.
func (f Field) setIn(spec map[string]any) bool {
	value, found, err := unstructured.NestedFieldNoCopy(spec, f.Path...)
	return err == nil && found && !equality.Semantic.DeepEqual(value, f.Default)
}

// Tracker knows the instances of all Templates and grants them turns. It lives as long as the
// process leads; another that takes over learns the same from the instances.
type Tracker struct {
	now        func() time.Time
	placements Placements
	// changed wakes the controller of a Template whose snapshot has changed.
	changed chan event.TypedGenericEvent[*sandbarv1alpha1.Template]

	mu        sync.Mutex
	templates map[string]*state
	dirty     map[string]bool
	signal    chan struct{}
}

// Placements names the placements of a provider's Template that are not being deleted, known or not.
type Placements func(ctx context.Context, provider, template string) (map[string]bool, error)

// state is that of one Template's rollout.
type state struct {
	config  Config
	known   bool // config is set
	members map[string]*member
	snap    Snapshot
	// complete is true once all placements were known, or given up.
	complete bool
	// again has the rollout looked at when something of it is due that no instance tells.
	again *time.Timer
}

// NewTracker makes a Tracker. now must be the clock of those who observe the instances: by another one an
// update that has just begun may have lasted too long.
func NewTracker(now func() time.Time, placements Placements) *Tracker {
	return &Tracker{
		now: now, placements: placements,
		changed:   make(chan event.TypedGenericEvent[*sandbarv1alpha1.Template], 64),
		templates: map[string]*state{}, dirty: map[string]bool{}, signal: make(chan struct{}, 1),
	}
}

// Changed has an event for each Template whose snapshot has changed.
func (t *Tracker) Changed() <-chan event.TypedGenericEvent[*sandbarv1alpha1.Template] {
	return t.changed
}

// Configure sets what a Template says of its rollout.
func (t *Tracker) Configure(template string, config Config) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.state(template)
	if s.known && equality.Semantic.DeepEqual(s.config, config) {
		return
	}
	if s.config.Target != config.Target {
		for _, m := range s.members {
			// Until each is observed again: what is not known to be up to date is not.
			m.settled, m.granted, m.outdated = false, time.Time{}, true
		}
	}
	s.config, s.known = config, true
	t.mark(template)
}

// Forget forgets a Template.
func (t *Tracker) Forget(template string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.templates, template)
}

// Snapshot returns the progress of the rollout of a Template's revision; ok is false while that is not
// known. Of some of the instances it says nothing: those that have failed may be among the others, and a
// pause that the Template's status tells of would end.
func (t *Tracker) Snapshot(template, target string) (snap Snapshot, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.templates[template]
	if s == nil || !s.complete || s.snap.Target != target {
		return Snapshot{}, false
	}
	return s.snap, true
}

// Request is an instance that asks for its turn, because it is to change.
type Request struct {
	// Placement is the namespace of its placement.
	Placement string
	// Target is the present revision, as the reconciler of the instance knows it.
	Target string
	// Want names what the instance is to be composed of, once it has its turn.
	Want string
	// Exists is true if it has a kro instance.
	Exists bool
	// Changes is true if it changes anyway: its tenant has changed the spec, or it wakes.
	Changes bool
	// Spec is what its tenant says. If that is something that no former revision knows, it takes the
	// present one also while the rollout is paused: otherwise it would be ignored.
	Spec map[string]any
	// WasPaused is true if the rollout was paused when the Template's status was last written. It holds
	// until the instances are known, which after a start takes a moment, or longer if kcp cannot be asked.
	WasPaused bool
}

// Turn reports whether the instance takes the present revision now.
func (t *Tracker) Turn(template string, r Request) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.state(template)
	m := s.member(r.Placement, t.now())
	switch {
	case s.known && r.Target != s.config.Target:
		return false // it is behind, or ahead, and is asked again when it is not
	case !m.granted.IsZero():
	case m.taken == r.Want: // its turn is not over: it was refused, and tries again
	case (!r.Exists || r.Changes) && (!s.paused(r.WasPaused) || s.needed(r.Spec)):
	default:
		return false
	}
	m.taken = r.Want
	return true
}

// paused reports whether no further instance takes the present revision. The Template's controller may not
// have said anything yet, so those who ask say what they know.
func (s *state) paused(was bool) bool {
	if s.complete {
		return s.snap.Phase == sandbarv1alpha1.RolloutPaused
	}
	return was || s.config.WasPaused
}

// needed reports whether only the present revision can give an instance what its spec says.
func (s *state) needed(spec map[string]any) bool {
	return slices.ContainsFunc(s.config.New, func(f Field) bool { return f.setIn(spec) })
}

// present returns the instances that have been observed and are among the placements, and how many are
// still to be observed. It forgets those that are gone: one that was observed a moment ago may not be in
// the cache yet.
//
// Of a placement that kcp cannot be asked about nothing is ever observed, and the sweep keeps it. It counts
// only for as long as an update may take: what had been updated would have failed by then, or be done. wait
// is when the next one counts no more.
func (s *state) present(placements map[string]bool, now time.Time) (members []*member, missing int, wait time.Duration) {
	for name := range placements {
		m := s.member(name, now)
		left := s.config.ProgressDeadline - now.Sub(m.seen)
		switch {
		case m.wake != nil:
			members = append(members, m)
		case left > 0:
			missing, wait = missing+1, sooner(wait, left)
		}
	}
	for name, m := range s.members {
		if !placements[name] && now.Sub(m.seen) > forgetAfter {
			delete(s.members, name)
		}
	}
	return members, missing, wait
}

// Look has the rollout of a Template looked at: its placements may be others.
func (t *Tracker) Look(template string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.templates[template] != nil {
		t.mark(template)
	}
}

func (t *Tracker) state(template string) *state {
	s := t.templates[template]
	if s == nil {
		s = &state{members: map[string]*member{}}
		t.templates[template] = s
	}
	return s
}

func (s *state) member(placement string, now time.Time) *member {
	m := s.members[placement]
	if m == nil {
		m = &member{placement: placement, seen: now}
		s.members[placement] = m
	}
	return m
}

// sooner is the smaller of two times to wait, of which none above zero means never.
func sooner(a, b time.Duration) time.Duration {
	if a <= 0 || b <= 0 {
		return max(a, b, 0)
	}
	return min(a, b)
}

// provider is that of a Template; empty until that is known.
func (t *Tracker) provider(template string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.templates[template]; s != nil {
		return s.config.Provider
	}
	return ""
}

func (t *Tracker) mark(template string) {
	t.dirty[template] = true
	select {
	case t.signal <- struct{}{}:
	default:
	}
}

// Start implements manager.Runnable: it grants turns until the context ends.
func (t *Tracker) Start(ctx context.Context) error {
	for t.gathered(ctx) {
		t.mu.Lock()
		dirty := slices.Sorted(maps.Keys(t.dirty))
		clear(t.dirty)
		t.mu.Unlock()
		for _, template := range dirty {
			if !t.advance(ctx, template) {
				continue
			}
			obj := &sandbarv1alpha1.Template{}
			obj.Name = template
			select {
			case t.changed <- event.TypedGenericEvent[*sandbarv1alpha1.Template]{Object: obj}:
			case <-ctx.Done():
				return nil
			}
		}
	}
	return nil
}

// gathered waits for a change and for those that follow it closely. It reports false at the
// context's end.
func (t *Tracker) gathered(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-t.signal:
		return pause.For(ctx, gather) == nil
	}
}

// advance grants the turns that are due and reports whether the snapshot has changed.
func (t *Tracker) advance(ctx context.Context, template string) (changed bool) {
	present, err := t.placements(ctx, t.provider(template), template) // from a cache; an error means that the process ends
	if err != nil {
		return false
	}
	t.mu.Lock()
	s := t.templates[template]
	if s == nil || !s.known {
		t.mu.Unlock()
		return false
	}
	now := t.now()
	members, missing, wait := s.present(present, now)
	snap, turns := plan(s.config.Settings, members, missing, now)
	snap.Target = s.config.Target
	if s.complete = s.complete || missing == 0; !s.complete && s.config.WasPaused {
		turns = nil
	}
	if snap.Phase == sandbarv1alpha1.RolloutComplete {
		// The next change begins with one instance again, also if it has the same target, as that of a
		// base or of the isolation has.
		for _, m := range s.members {
			m.settled = false
		}
	}
	for _, m := range turns {
		m.granted = now
	}
	for _, m := range members {
		if !m.granted.IsZero() {
			wait = sooner(wait, s.config.ProgressDeadline-now.Sub(m.granted))
		}
	}
	changed, s.snap = s.snap != snap, snap
	if s.again != nil {
		s.again.Stop()
	}
	if s.again = nil; wait > 0 {
		s.again = time.AfterFunc(wait, func() { t.Look(template) })
	}
	t.mu.Unlock()
	for _, m := range turns {
		m.wake()
	}
	return changed
}
