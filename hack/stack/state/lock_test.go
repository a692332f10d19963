// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"os"
	"path/filepath"
	"testing"
)

func TestLockWaitsForTheHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, err := Lock(path, func() { t.Error("the first had to wait") })
	if err != nil {
		t.Fatal(err)
	}
	waiting, got := make(chan struct{}), make(chan *Locked)
	go func() {
		second, err := Lock(path, func() { close(waiting) })
		if err != nil {
			t.Error(err)
		}
		got <- second
	}()
	<-waiting
	select {
	case <-got:
		t.Fatal("two hold the lock")
	default:
	}
	first.Unlock()
	(<-got).Unlock()
}

// "down" removes the lock file while holding it. Whoever waited then holds a lock
// on a file that nobody else can find.
func TestLockIsTakenOnTheFileThatOthersFind(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, err := Lock(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	waiting, got := make(chan struct{}), make(chan *Locked)
	go func() {
		second, err := Lock(path, func() { close(waiting) })
		if err != nil {
			t.Error(err)
		}
		got <- second
	}()
	<-waiting
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	first.Unlock()
	second := <-got
	defer second.Unlock()
	if !current(second.file, path) {
		t.Error("the lock is on a removed file")
	}
}
