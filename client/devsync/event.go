// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin || windows

package devsync

import (
	"maps"
	"slices"
	"strings"
	"time"

	syncwire "github.com/sandbar-dev/sandbar/apis/wire/sync"
)

// EventType is what an event is about.
type EventType string

// The events.
const (
	// EventFile: the state of one path changed.
	EventFile EventType = "file"
	// EventLost: the sandbox cannot be reached; it is tried again after Retry.
	EventLost EventType = "lost"
	// EventResumed: it can be reached again.
	EventResumed EventType = "resumed"
	// EventSettled: nothing is left to do; Conflicts and Refused tell what remains.
	EventSettled EventType = "settled"
	// EventUnsettled: the two sides are not alike, and Reason says why. What changes next may help.
	EventUnsettled EventType = "unsettled"
	// EventProgress: of a large file, Bytes of Size have been carried over.
	EventProgress EventType = "progress"
	// EventNote: something that a person should know.
	EventNote EventType = "note"
)

// FileState is where a path stands.
type FileState string

// The states of a path.
const (
	// Pending: a change was seen and waits for its batch.
	Pending FileState = "pending"
	// Sending: its batch is on the way.
	Sending FileState = "sending"
	// Applied: the sandbox has it.
	FileApplied FileState = "applied"
	// FileReceived: the directory has what the sandbox made.
	FileReceived FileState = "received"
	// FileRefused: it cannot be synced; Reason says why.
	FileRefused FileState = "refused"
	// FileWithheld: it may be a secret, and stays here; Reason says why, Options.Secrets sends it.
	FileWithheld FileState = "withheld"
	// FileConflict: both sides changed it; Reason says how.
	FileConflict FileState = "conflict"
	// FileDiffers: the sandbox changed it, and files do not travel back.
	FileDiffers FileState = "differs"
)

// Event is something that happened. Texts may come from inside the sandbox: escape them before
// they go to a terminal.
type Event struct {
	Time  time.Time `json:"time"`
	Type  EventType `json:"type"`
	Path  string    `json:"path,omitempty"`
	State FileState `json:"state,omitempty"`
	// Deleted tells that the change is a deletion.
	Deleted bool   `json:"deleted,omitempty"`
	Reason  string `json:"reason,omitempty"`
	// Seconds until the next try, for EventLost, and whether somebody has to resume the sandbox first.
	RetrySeconds float64 `json:"retrySeconds,omitempty"`
	Suspended    bool    `json:"suspended,omitempty"`
	// Files and Bytes that the last settling sent, and the counts of what remains, for
	// EventSettled.
	Files int   `json:"files,omitempty"`
	Bytes int64 `json:"bytes,omitempty"`
	// Size is that of the file, for EventProgress.
	Size      int64 `json:"size,omitempty"`
	Conflicts int   `json:"conflicts,omitempty"`
	Refused   int   `json:"refused,omitempty"`
	Withheld  int   `json:"withheld,omitempty"`
	Differing int   `json:"differing,omitempty"`
}

// Conflict is a path that both sides changed, or whose change on one side has no place on the
// other.
type Conflict struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
	// Local and Remote are what lies there now, Base what both agreed on last; Type is none for
	// nothing.
	Local  syncwire.Entry `json:"local"`
	Remote syncwire.Entry `json:"remote"`
	Base   syncwire.Entry `json:"base"`
}

// Refusal is a path that cannot be synced.
type Refusal struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

// Report is how things stand after a sync. All lists are ordered by path.
type Report struct {
	// Sent and Received count the paths that were changed on the other side.
	Sent     int `json:"sent"`
	Received int `json:"received"`
	// Bytes of content that were sent.
	Bytes     int64      `json:"bytes"`
	Conflicts []Conflict `json:"conflicts"`
	Refused   []Refusal  `json:"refused"`
	// Withheld has what may be a secret, and stays here.
	Withheld []Refusal `json:"withheld"`
	// Differs has what the sandbox changed and did not travel back.
	Differs []string `json:"differs"`
	// Undecided has those of Options.PreferPaths at which there was no conflict, nor below them.
	Undecided []string `json:"undecided,omitempty"`
}

func (e *Engine) report() *Report {
	r := &Report{Sent: e.sent, Received: e.received, Bytes: e.bytes, Conflicts: []Conflict{}, Refused: []Refusal{}, Withheld: []Refusal{}, Differs: []string{}}
	for _, path := range slices.Sorted(maps.Keys(e.conflicts)) {
		r.Conflicts = append(r.Conflicts, e.conflicts[path])
	}
	refused := maps.Clone(e.local.refused)
	for path, s := range e.refusals {
		refused[path] = s.reason
	}
	if e.opts.TwoWay && e.remote != nil {
		maps.Copy(refused, e.remote.refused)
	}
	r.Refused = append(r.Refused, refusalsOf(refused)...)
	r.Withheld = append(r.Withheld, refusalsOf(e.local.withheld)...)
	r.Differs = append(r.Differs, slices.Sorted(maps.Keys(e.differs))...)
	for _, path := range e.opts.PreferPaths {
		if !e.preferred[path] {
			r.Undecided = append(r.Undecided, path)
		}
	}
	return r
}

// refusalsOf lists paths and reasons, ordered by path.
func refusalsOf(reasons map[string]string) []Refusal {
	list := make([]Refusal, 0, len(reasons))
	for _, path := range slices.Sorted(maps.Keys(reasons)) {
		list = append(list, Refusal{Path: path, Reason: reasons[path]})
	}
	return list
}

// tellLeft tells what of the directory stays here, and why, each once: again only if it was fit to
// be sent in between, or for another reason.
func (e *Engine) tellLeft() {
	now := maps.Clone(e.local.refused)
	maps.Copy(now, e.local.withheld)
	for _, r := range refusalsOf(now) {
		state := FileRefused
		if _, ok := e.local.withheld[r.Path]; ok {
			state = FileWithheld
		}
		if e.left[r.Path] != r.Reason {
			e.emit(Event{Type: EventFile, Path: r.Path, State: state, Reason: r.Reason})
		}
	}
	e.left = now
}

func (e *Engine) tell(c change, state FileState, reason string) {
	e.emit(Event{Type: EventFile, Path: c.path, State: state, Deleted: c.want.Type == syncwire.None, Reason: reason})
}

// progress tells how far a large file is, at each tenth of it and at the beginning of what is new.
func (e *Engine) progress(path string, size int64) func(done int64) {
	told := int64(-1)
	return func(done int64) {
		if tenth := done * 10 / max(size, 1); size >= keptBytes && tenth != told {
			told = tenth
			e.emit(Event{Type: EventProgress, Path: path, Bytes: done, Size: size})
		}
	}
}

func (e *Engine) note(text string) { e.emit(Event{Type: EventNote, Reason: strings.TrimSpace(text)}) }

func (e *Engine) emit(event Event) {
	if e.opts.OnEvent != nil {
		event.Time = time.Now()
		e.opts.OnEvent(event)
	}
}
