// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package events

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/sandbar-dev/sandbar/pkg/export"
)

const (
	// maxQueued bounds the events that wait to be written; beyond it further ones are counted as dropped.
	maxQueued = 1024

	// An event is tried tries times, each after a pause of pause: kcp may be slow, or start.
	tries = 6
	pause = 10 * time.Second
)

// dropped is the outcome of an event for which the queue had no room.
const dropped = "dropped"

// queued is an event that is to be written.
type queued struct {
	key   export.Key
	event *corev1.Event
	now   time.Time
	tried int
}

// Queue writes events one after the other, behind the back of those who tell them: a reconcile goes on at once, and many
// events at a time do not compete with the status writes of the objects that they are about.
type Queue struct {
	recorder *Recorder
	waiting  chan queued
}

// NewQueue returns a queue in front of a recorder. Nothing is written until Run.
func NewQueue(recorder *Recorder) *Queue {
	return &Queue{recorder: recorder, waiting: make(chan queued, maxQueued)}
}

// Write has an event written, after those that were told before it. It does not wait. An event that waits when Run ends
// is lost: the status of its object says the same.
func (q *Queue) Write(_ context.Context, key export.Key, event *corev1.Event, now time.Time) {
	if !q.recorder.admits(event, now) {
		q.count(limited)
		return
	}
	q.put(queued{key: key, event: event, now: now})
}

func (q *Queue) put(next queued) {
	select {
	case q.waiting <- next:
	default:
		q.count(dropped)
	}
}

func (q *Queue) count(outcome string) { q.recorder.outcomes.WithLabelValues(outcome).Inc() }

// Run writes the events until ctx ends.
func (q *Queue) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case next := <-q.waiting:
			q.write(ctx, next)
		}
	}
}

// write writes one event, or has it tried again later.
func (q *Queue) write(ctx context.Context, next queued) {
	outcome := q.recorder.try(ctx, next.key, next.event, next.now)
	if next.tried++; outcome == unanswered && next.tried < tries {
		time.AfterFunc(pause, func() { q.put(next) })
		return
	}
	if outcome == unanswered {
		outcome = failed
	}
	q.count(outcome)
}
