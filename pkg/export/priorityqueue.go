// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package export

import "sync"

// priorityQueue is an order of requests in two lanes: the rear one waits until the front one is empty. It
// implements workqueue.Queue.
type priorityQueue struct {
	mu sync.Mutex
	// patient marks requests for the rear lane, until Push has seen the mark.
	patient map[Key]bool
	// front goes before rear. An entry of rear that has overtaken is skipped.
	front, rear []Key
	// in says for each request in the lanes whether it is in the front one.
	in map[Key]bool
}

func newPriorityQueue() *priorityQueue {
	return &priorityQueue{patient: map[Key]bool{}, in: map[Key]bool{}}
}

// add appends a request, to the rear lane if it may wait.
func (l *priorityQueue) add(req Key, mayWait bool) {
	l.mark(req, mayWait)
	l.Push(req)
}

// mark says whether the request that is pushed next may wait.
func (l *priorityQueue) mark(req Key, mayWait bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if mayWait {
		l.patient[req] = true
	}
}

// Push implements workqueue.Queue: a request that is not queued is added.
func (l *priorityQueue) Push(req Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	front := !l.patient[req]
	delete(l.patient, req)
	l.in[req] = front
	if front {
		l.front = append(l.front, req)
	} else {
		l.rear = append(l.rear, req)
	}
}

// Touch implements workqueue.Queue. fairQueue adds no request twice, so it is never called.
func (l *priorityQueue) Touch(req Key) { l.overtake(req, false) }

// overtake moves a request to the front lane unless it may wait, and reports whether it is in a lane.
func (l *priorityQueue) overtake(req Key, mayWait bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	front, found := l.in[req]
	if found && !front && !mayWait {
		l.in[req] = true
		l.front = append(l.front, req)
	}
	return found
}

// Len implements workqueue.Queue.
func (l *priorityQueue) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.in)
}

// Pop implements workqueue.Queue; it is called only when Len is not zero.
func (l *priorityQueue) Pop() Key {
	req, _ := l.next()
	return req
}

// next takes the first Key and reports whether it may wait. It must not be called when Len is zero.
func (l *priorityQueue) next() (req Key, mayWait bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.front) > 0 {
		req = shift(&l.front)
		delete(l.in, req)
		return req, false
	}
	for {
		req = shift(&l.rear)
		if front, found := l.in[req]; found && !front {
			delete(l.in, req)
			return req, true
		}
	}
}

func shift(lane *[]Key) Key {
	first := (*lane)[0]
	(*lane)[0] = Key{} // let its strings go
	*lane = (*lane)[1:]
	return first
}
