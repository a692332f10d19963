// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package top

import (
	"context"

	tea "charm.land/bubbletea/v2"
)

// Feed is how the view learns of sandboxes. Its methods can be called by several goroutines, and do not wait for the
// view.
type Feed struct{ box *mailbox[event] }

// NewFeed returns a feed for one [Model].
func NewFeed() *Feed { return &Feed{newMailbox[event](0)} }

// event is news about the sandboxes of one kind.
type event struct {
	resource string
	// listed reports whether rows are all that there are of the kind; otherwise they are those that changed.
	listed bool
	rows   []Row
	// gone reports whether the rows are not there any more.
	gone bool
	// trouble is why the kind cannot be watched now; empty when it can. It counts if told is set.
	trouble string
	told    bool
}

// List says what the sandboxes of a kind are, all of them, and that they are watched.
func (f *Feed) List(resource string, rows []Row) {
	f.box.put(event{resource: resource, listed: true, rows: rows, told: true})
}

// Change says that a sandbox is new, or has changed.
func (f *Feed) Change(row Row) { f.box.put(event{resource: row.Resource, rows: []Row{row}}) }

// Remove says that a sandbox is gone.
func (f *Feed) Remove(row Row) {
	f.box.put(event{resource: row.Resource, rows: []Row{row}, gone: true})
}

// Interrupt says that the sandboxes of a kind cannot be watched now, and why. The view shows what it knows of them.
func (f *Feed) Interrupt(resource, reason string) {
	f.box.put(event{resource: resource, told: true, trouble: reason})
}

// Resume says that the sandboxes of a kind are watched again.
func (f *Feed) Resume(resource string) { f.box.put(event{resource: resource, told: true}) }

// feedMsg has what came out of the feed.
type feedMsg []event

// next waits for news.
func (f *Feed) next(ctx context.Context) tea.Cmd {
	return func() tea.Msg {
		events, _, _ := f.box.take(ctx)
		if len(events) == 0 {
			return nil // the view has ended
		}
		return feedMsg(events)
	}
}
