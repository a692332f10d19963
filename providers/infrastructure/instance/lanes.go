// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"sync"

	"k8s.io/client-go/util/workqueue"
)

type queue = workqueue.TypedRateLimitingInterface[request]

// lanes orders a work queue in two lanes: what merely exists waits behind what changes, so
// that a start with thousands of instances does not delay a new one.
//
// controller-runtime's own priority queue would do, but v0.24.1 can hang for ever when it is
// shut down: it hands an item to a worker that has already gone, and keeps its lock. A kind
// whose controller stops with its Template must come to an end.
type lanes struct {
	mu sync.Mutex
	// patient marks requests that may wait, from add until Push or Touch has seen the mark.
	patient map[request]bool
	// front goes before rear.
	front, rear []request
	// inRear holds what is in the rear lane and has not overtaken; the entries that rear keeps
	// of those that have are skipped.
	inRear map[request]bool
}

func newLanes() *lanes {
	return &lanes{patient: map[request]bool{}, inRear: map[request]bool{}}
}

// newQueue builds the rate-limiting queue that is ordered by the lanes.
func (l *lanes) newQueue(name string, limiter workqueue.TypedRateLimiter[request]) queue {
	ordered := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[request]{Name: name, Queue: l})
	delaying := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[request]{Name: name, Queue: ordered})
	return workqueue.NewTypedRateLimitingQueueWithConfig(limiter,
		workqueue.TypedRateLimitingQueueConfig[request]{Name: name, DelayingQueue: delaying})
}

// add enqueues a request, behind all others if it may wait. One that must not wait overtakes,
// even if it was enqueued as patient before.
func (l *lanes) add(q queue, req request, mayWait bool) {
	l.mu.Lock()
	if mayWait {
		l.patient[req] = true
	} else {
		delete(l.patient, req)
	}
	l.mu.Unlock()
	q.Add(req)
}

// Push implements workqueue.Queue: a request that is not queued is added.
func (l *lanes) Push(req request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.patient[req] {
		delete(l.patient, req)
		l.rear = append(l.rear, req)
		l.inRear[req] = true
		return
	}
	l.front = append(l.front, req)
}

// Touch implements workqueue.Queue: a request that is queued is added again.
func (l *lanes) Touch(req request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.patient[req] {
		delete(l.patient, req)
		return
	}
	if l.inRear[req] {
		delete(l.inRear, req)
		l.front = append(l.front, req)
	}
}

// Len implements workqueue.Queue.
func (l *lanes) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.front) + len(l.inRear)
}

// Pop implements workqueue.Queue; it is called only when Len is not zero.
func (l *lanes) Pop() request {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.front) > 0 {
		return shift(&l.front)
	}
	for {
		req := shift(&l.rear)
		if l.inRear[req] {
			delete(l.inRear, req)
			return req
		}
	}
}

func shift(lane *[]request) request {
	first := (*lane)[0]
	(*lane)[0] = request{} // let its strings go
	*lane = (*lane)[1:]
	return first
}
