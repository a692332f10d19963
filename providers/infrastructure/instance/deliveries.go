// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	// deliveriesAtOnce is how many pods get variables at once, and deliveriesOfOne how many of one workspace: whose commands
	// do not end holds up its own alone.
	deliveriesAtOnce = 32
	deliveriesOfOne  = 8
	// deliveryPatience bounds one, the wait for its turn included. A command has 5 s to end (package runner).
	deliveryPatience = 45 * time.Second
	// deliveryFirst and deliveryMost bound the time until one that failed is tried again.
	deliveryFirst = time.Second
	deliveryMost  = 30 * time.Second
	// deliveryForgotten is when one is forgotten whose instance nobody has looked at since.
	deliveryForgotten = 10 * time.Minute
)

// Outcomes of deliveries, for the metric.
const (
	deliveryDone   = "delivered"
	deliveryFailed = "failed"
)

// delivery is of variables to the pod of one placement.
type delivery struct {
	// warm is the adoption that it belongs to; nil if another process has adopted.
	warm    *adopted
	running bool
	// err is why the last one failed, again when to try once more, and wait how long that was put off.
	err   error
	again time.Time
	wait  time.Duration
	// began is when the last one began, and done when it had come about.
	began, done time.Time
}

// deliveries are those of this process, one for a placement, by its namespace. It is safe for concurrent use.
type deliveries struct {
	running sync.WaitGroup
	all     *semaphore.Weighted

	mu     sync.Mutex
	known  map[string]*delivery
	groups map[string]*group
}

// group are the deliveries of one workspace.
type group struct {
	room *semaphore.Weighted
	n    int
}

func newDeliveries() *deliveries {
	return &deliveries{all: semaphore.NewWeighted(deliveriesAtOnce), known: map[string]*delivery{}, groups: map[string]*group{}}
}

// begin notes a delivery, and reports whether none is under way.
func (d *deliveries) begin(namespace string, warm *adopted, now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	// An instance that is gone has nobody who forgets its delivery.
	maps.DeleteFunc(d.known, func(_ string, other *delivery) bool {
		return !other.running && now.Sub(other.began) > deliveryForgotten
	})
	was := d.known[namespace]
	if was == nil {
		was = &delivery{warm: warm}
		d.known[namespace] = was
	}
	if was.running {
		return false
	}
	was.running, was.began, was.err = true, now, nil
	return true
}

// end notes how a delivery has ended.
func (d *deliveries) end(namespace string, err error, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	is := d.known[namespace]
	if is == nil {
		return
	}
	is.running, is.err = false, err
	if err == nil {
		is.done = now
		return
	}
	is.wait = min(max(2*is.wait, deliveryFirst), deliveryMost)
	is.again = now.Add(is.wait)
}

// of returns the delivery to a placement as it is, and reports whether there is one.
func (d *deliveries) of(namespace string) (delivery, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if is := d.known[namespace]; is != nil {
		return *is, true
	}
	return delivery{}, false
}

func (d *deliveries) forget(namespace string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if is := d.known[namespace]; is != nil && !is.running {
		delete(d.known, namespace)
	}
}

// enter waits for the turn of a delivery of a workspace. Call leave when it has ended.
func (d *deliveries) enter(ctx context.Context, workspace string) (leave func(), err error) {
	d.mu.Lock()
	mine := d.groups[workspace]
	if mine == nil {
		mine = &group{room: semaphore.NewWeighted(deliveriesOfOne)}
		d.groups[workspace] = mine
	}
	mine.n++
	d.mu.Unlock()
	gone := func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if mine.n--; mine.n == 0 {
			delete(d.groups, workspace)
		}
	}
	// The workspace's own first: what waits for it must not take the room of others.
	if err := mine.room.Acquire(ctx, 1); err != nil {
		gone()
		return nil, fmt.Errorf("waiting for its turn: %w", err)
	}
	if err := d.all.Acquire(ctx, 1); err != nil {
		mine.room.Release(1)
		gone()
		return nil, fmt.Errorf("waiting for its turn: %w", err)
	}
	return func() {
		d.all.Release(1)
		mine.room.Release(1)
		gone()
	}, nil
}
