// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"fmt"
	"sync"
)

// slots bound what copies have under way. The baseline has none: what copies cannot take, they cannot take from it.
//
// The attack: one sandbox with a rule for each of many addresses, none of which ever answers, takes all places, and the copies of
// all others are answered with 503. So one sandbox has a part of them (sandboxPart), at however many addresses.
type slots struct {
	// each is for a copy, sandbox for all of a sandbox, all for all.
	each, sandbox, all int

	mu        sync.Mutex
	copies    map[string]int // by address
	sandboxes map[string]int // by ID
	total     int
}

// sandboxPart is which part of all places a sandbox has: a quarter.
const sandboxPart = 4

func newSlots(each, all int) *slots {
	return &slots{each: each, sandbox: max(1, all/sandboxPart), all: all, copies: map[string]int{}, sandboxes: map[string]int{}}
}

// fullError means that copies have as much under way as they may.
type fullError struct {
	most int
	// sandbox is set if it is all copies of a sandbox that have, and all if it is all copies together.
	sandbox string
	all     bool
}

func (e *fullError) Error() string {
	switch {
	case e.all:
		return fmt.Sprintf("all copies together have %d requests under way, which is the most", e.most)
	case e.sandbox != "":
		return fmt.Sprintf("sandbox %s has %d requests under way, which is the most", e.sandbox, e.most)
	}
	return fmt.Sprintf("it has %d requests under way, which is the most", e.most)
}

// take takes a place of a copy of a sandbox.
func (s *slots) take(address, sandbox string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.copies[address] >= s.each:
		return &fullError{most: s.each}
	case s.sandboxes[sandbox] >= s.sandbox:
		return &fullError{most: s.sandbox, sandbox: sandbox}
	case s.total >= s.all:
		return &fullError{most: s.all, all: true}
	}
	s.copies[address]++
	s.sandboxes[sandbox]++
	s.total++
	return nil
}

// give gives it back.
func (s *slots) give(address, sandbox string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total--
	one(s.copies, address)
	one(s.sandboxes, sandbox)
}

// one takes one off a count.
func one(counts map[string]int, of string) {
	if counts[of]--; counts[of] == 0 {
		delete(counts, of)
	}
}
