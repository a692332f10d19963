// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package events

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/sandbar-dev/sandbar/pkg/export"
)

// maxQueued bounds the events that wait to be written; beyond it further ones are counted as dropped.
const maxQueued = 1024

// dropped is the outcome of an event for which the queue had no room.
const dropped = "dropped"

// queued is an event that is to be written.
type queued struct {
	key   export.Key
	event *corev1.Event
	now   time.Time
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
	select {
	case q.waiting <- queued{key, event, now}:
	default:
		q.recorder.outcomes.WithLabelValues(dropped).Inc()
	}
}

// Run writes the events until ctx ends.
func (q *Queue) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case next := <-q.waiting:
			q.recorder.Write(ctx, next.key, next.event, next.now)
		}
	}
}
