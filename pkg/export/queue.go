// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package export

import (
	"sync"

	"k8s.io/client-go/util/workqueue"
)

type queue = workqueue.TypedRateLimitingInterface[Key]

// fairQueue gives each workspace its share of a kind's workers, and no more while others wait: one
// tenant's thousand instances, or one whose instances are slow, cannot delay another tenant's only one.
//
// It admits requests to an ordered queue, of each workspace as many as are its share, and holds the
// others back in their own workspace's line. A workspace that is alone may have all workers but one.
// Requests that may wait stand behind those that must not, in the line and in the queue: a start with
// thousands of instances does not delay a new one.
//
// controller-runtime's own priority queue knows no workspaces, and v0.24.1 can hang for ever when it
// is shut down: it hands an item to a worker that has already gone, and keeps its lock. A kind whose
// controller stops with its Template must come to an end.
type fairQueue struct {
	// TypedInterface hands out what was admitted, in the order of ordered. It is given no request
	// twice, and it never calls back, so that mu may be held while it is called.
	workqueue.TypedInterface[Key]

	workers int
	ordered *priorityQueue

	mu sync.Mutex
	// lines are those of the workspaces that have requests which are not done.
	lines map[string]*line
	// admitted are the requests that are in the ordered queue or with a worker.
	admitted map[Key]*admission
	// patient marks requests that may wait, until Add has seen the mark.
	patient map[Key]bool
}

// line is what one workspace has in the queue.
type line struct {
	admitted int
	held     *priorityQueue
}

// admission is a request's turn.
type admission struct {
	// again: the request was added while a worker had it. Whether it may wait then is mayWait.
	again, mayWait bool
}

// newQueue builds a rate-limiting queue over a fairQueue for a number of workers.
func newQueue(name string, workers int, limiter workqueue.TypedRateLimiter[Key]) (*fairQueue, queue) {
	f := &fairQueue{
		workers: workers, ordered: newPriorityQueue(),
		lines: map[string]*line{}, admitted: map[Key]*admission{}, patient: map[Key]bool{},
	}
	f.TypedInterface = workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[Key]{Name: name, Queue: f.ordered})
	delaying := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[Key]{Name: name, Queue: f})
	return f, workqueue.NewTypedRateLimitingQueueWithConfig(limiter,
		workqueue.TypedRateLimitingQueueConfig[Key]{Name: name, DelayingQueue: delaying})
}

// addPatient enqueues a request that may wait behind all others.
func (f *fairQueue) addPatient(req Key) {
	f.mu.Lock()
	f.patient[req] = true
	f.mu.Unlock()
	f.Add(req)
}

// Add implements workqueue.TypedInterface. A request that must not wait overtakes, also if it was
// enqueued as patient before.
func (f *fairQueue) Add(req Key) {
	f.mu.Lock()
	defer f.mu.Unlock()
	mayWait := f.patient[req]
	delete(f.patient, req)
	if turn := f.admitted[req]; turn != nil {
		if !f.ordered.overtake(req, mayWait) { // a worker has it
			turn.mayWait = mayWait && (turn.mayWait || !turn.again)
			turn.again = true
		}
		return
	}
	l := f.lines[req.Cluster]
	if l == nil {
		l = &line{held: newPriorityQueue()}
		f.lines[req.Cluster] = l
	}
	if !l.held.overtake(req, mayWait) {
		l.held.add(req, mayWait)
	}
	f.admit(l)
}

// admit lets requests of a line into the ordered queue, as many as are its share. f.mu is held.
func (f *fairQueue) admit(l *line) {
	for l.held.Len() > 0 && l.admitted < f.share() {
		req, mayWait := l.held.next()
		l.admitted++
		f.admitted[req] = &admission{}
		f.ordered.mark(req, mayWait)
		f.TypedInterface.Add(req)
	}
}

// share is how many requests of one workspace are admitted: the workers, but for one that is kept for
// a workspace which comes, divided among those that have requests.
func (f *fairQueue) share() int {
	return max(1, (f.workers-1)/max(1, len(f.lines)))
}

// Done implements workqueue.TypedInterface: the next request of the workspace is admitted. What was
// added meanwhile stands behind those that are held, so that one object that always changes does not
// keep its workspace's others waiting.
func (f *fairQueue) Done(req Key) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.TypedInterface.Done(req)
	turn, l := f.admitted[req], f.lines[req.Cluster]
	delete(f.admitted, req)
	l.admitted--
	if turn.again {
		l.held.add(req, turn.mayWait)
	}
	f.admit(l)
	if l.admitted == 0 {
		delete(f.lines, req.Cluster)
	}
}

// Len implements workqueue.TypedInterface: requests that are held count.
func (f *fairQueue) Len() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.TypedInterface.Len()
	for _, l := range f.lines {
		n += l.held.Len()
	}
	return n
}
