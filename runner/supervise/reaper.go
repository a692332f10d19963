// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervise

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"

	"golang.org/x/sys/unix"
)

// Reaper waits for every child of this process: those started through it and
// those it inherits as a subreaper. See the package comment for why it is alone.
type Reaper struct {
	signals chan os.Signal
	done    chan struct{}

	// mu is held while a child is started and while children are reaped, so that
	// no child is reaped before it is known, and no PID is signalled after it was
	// reaped and may mean another process.
	mu       sync.Mutex
	children map[int]chan<- unix.WaitStatus
	// watchers are told, without waiting for them, that some child was reaped.
	watchers map[chan struct{}]struct{}
}

// NewReaper makes this process a child subreaper and begins to reap. Children that
// are started from then on ignore neither HUP nor INT, also if this process does.
// The caller ends it with [Reaper.Close].
func NewReaper() (*Reaper, error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("becoming a child subreaper: %w", err)
	}
	r := &Reaper{
		// One place is enough: a signal means "look", and looking takes all.
		signals:  make(chan os.Signal, 1),
		done:     make(chan struct{}),
		children: map[int]chan<- unix.WaitStatus{},
		watchers: map[chan struct{}]struct{}{},
	}
	resetInherited()
	signal.Notify(r.signals, unix.SIGCHLD)
	go r.run()
	return r, nil
}

// Close ends the reaping. Children that are still there stay unreaped.
func (r *Reaper) Close() {
	signal.Stop(r.signals)
	close(r.signals)
	<-r.done
}

func (r *Reaper) run() {
	defer close(r.done)
	for range r.signals {
		r.reap()
	}
}

// reap takes every child that has ended.
func (r *Reaper) reap() {
	r.mu.Lock()
	defer r.mu.Unlock()
	some := false
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			break
		}
		some = true
		if exited, ok := r.children[pid]; ok {
			delete(r.children, pid)
			exited <- status // has room for it
		}
	}
	if !some {
		return
	}
	for watcher := range r.watchers {
		select {
		case watcher <- struct{}{}:
		default:
		}
	}
}

// start runs fork, which starts a child and returns its PID, and returns a channel
// that gets the child's status when it has ended.
func (r *Reaper) start(fork func() (int, error)) (int, <-chan unix.WaitStatus, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	pid, err := fork()
	if err != nil {
		return 0, nil, err
	}
	exited := make(chan unix.WaitStatus, 1)
	r.children[pid] = exited
	return pid, exited, nil
}

// signalGroup signals the group of a child that start returned. It does nothing and
// returns false when the child has been reaped: its number may be another's.
func (r *Reaper) signalGroup(pid int, sig unix.Signal) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.children[pid]; !ok {
		return false
	}
	return unix.Kill(-pid, sig) == nil
}

// others returns the children that start returned, except pid. They are not part
// of what descends from pid.
func (r *Reaper) others(pid int) map[int]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	set := make(map[int]bool, len(r.children))
	for child := range r.children {
		if child != pid {
			set[child] = true
		}
	}
	return set
}

// watch returns a channel that has something to read after any child was reaped,
// and a function that ends it.
func (r *Reaper) watch() (<-chan struct{}, func()) {
	watcher := make(chan struct{}, 1)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.watchers[watcher] = struct{}{}
	return watcher, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.watchers, watcher)
	}
}
