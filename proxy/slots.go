// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"fmt"
	"sync"
)

// slots bound what copies have under way. The baseline has none: what copies cannot take, they cannot take from it.
type slots struct {
	each, all int

	mu    sync.Mutex
	taken map[string]int
	total int
}

// fullError means that copies have as much under way as they may.
type fullError struct {
	most int
	// all is set if it is all copies together that have.
	all bool
}

func (e *fullError) Error() string {
	if e.all {
		return fmt.Sprintf("all copies together have %d requests under way, which is the most", e.most)
	}
	return fmt.Sprintf("it has %d requests under way, which is the most", e.most)
}

// take takes a place of a copy.
func (s *slots) take(address string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.taken[address] >= s.each:
		return &fullError{most: s.each}
	case s.total >= s.all:
		return &fullError{most: s.all, all: true}
	}
	s.taken[address]++
	s.total++
	return nil
}

// give gives it back.
func (s *slots) give(address string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total--
	if s.taken[address]--; s.taken[address] == 0 {
		delete(s.taken, address)
	}
}
