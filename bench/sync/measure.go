// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/sandbar-dev/sandbar/bench/rival"
	"github.com/sandbar-dev/sandbar/pkg/pause"
)

// arriveTimeout is how long one change may take; mutagen looks for some every ten seconds.
const arriveTimeout = time.Minute

// measurement is one turn of one subject.
type measurement struct {
	*subject
	run   *running
	edits *int // counts, so that each is another
	took  func(key string, value float64)
}

// edit saves one file and waits until its content is in place. The clock starts just before the
// file is written (in place, as many editors do) and stops when the content can be read at the
// destination.
func (m *measurement) edit(ctx context.Context, key, file string, content []byte) error {
	there := filepath.Join(m.destination, file)
	arrives, err := newArrivals(filepath.Dir(there))
	if err != nil {
		return err
	}
	defer arrives.close() //nolint:errcheck // a descriptor of inotify
	began := time.Now()
	if err := os.WriteFile(filepath.Join(m.source, file), content, 0o644); err != nil {
		return fmt.Errorf("saving: %w", err)
	}
	carried := make(chan error, 1)
	if m.carry != nil {
		go func() { carried <- m.carry(ctx, file) }()
	} else {
		carried <- nil
	}
	err = arrives.until(ctx, arriveTimeout, has(there, content))
	took := time.Since(began)
	if err := errors.Join(err, <-carried); err != nil {
		return fmt.Errorf("%s: carrying %s: %w", m.name, file, err)
	}
	m.took(key, took.Seconds()*1000)
	return nil
}

// breathe lets a change be one of its own, and no clock of a subject fall in step with ours.
func breathe(ctx context.Context) error {
	return pause.For(ctx, 150*time.Millisecond+rand.N(100*time.Millisecond)) //nolint:gosec // no secret
}

// warm edits the files that are going to be edited again and again, all at once, so that whoever
// watches such files more closely knows them.
func (m *measurement) warm(ctx context.Context, files int) error {
	for i := range hotFiles {
		if err := os.WriteFile(filepath.Join(m.source, path(hot(i, files))), source(hot(i, files), *m.edits), 0o644); err != nil {
			return fmt.Errorf("saving: %w", err)
		}
		if m.carry == nil {
			continue
		}
		if err := m.carry(ctx, path(hot(i, files))); err != nil {
			return err
		}
	}
	for i := range hotFiles {
		if err := until(ctx, arriveTimeout, has(filepath.Join(m.destination, path(hot(i, files))), source(hot(i, files), *m.edits))); err != nil {
			return fmt.Errorf("%s: carrying the first edits: %w", m.name, err)
		}
	}
	return breathe(ctx)
}

// hot is one of the files that are edited again and again.
func hot(i, files int) int { return i % hotFiles * (files / hotFiles) }

// again edits the same few files again and again, cold others of the tree.
func (m *measurement) again(ctx context.Context, n, files int) error {
	*m.edits++
	if err := m.warm(ctx, files); err != nil {
		return err
	}
	for i := range n {
		*m.edits++
		if err := m.edit(ctx, "edit_ms", path(hot(i, files)), source(hot(i, files), *m.edits)); err != nil {
			return err
		}
		if err := breathe(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (m *measurement) cold(ctx context.Context, n, files int) error {
	for range n {
		*m.edits++
		file := rand.N(files) //nolint:gosec // no secret
		if err := m.edit(ctx, "cold_ms", path(file), source(file, *m.edits)); err != nil {
			return err
		}
		if err := breathe(ctx); err != nil {
			return err
		}
	}
	return nil
}

// checkout moves a directory of many files into the tree. The clock stops when all of them are
// at the destination with their sizes.
func (m *measurement) checkout(ctx context.Context, prepared string, files map[string][]byte) error {
	const name = "checkout"
	if err := write(prepared, files); err != nil {
		return err
	}
	there := filepath.Join(m.destination, name)
	began := time.Now()
	if err := os.Rename(prepared, filepath.Join(m.source, name)); err != nil {
		return err
	}
	carried := make(chan error, 1)
	if m.carry != nil {
		go func() { carried <- m.carry(ctx, name) }()
	} else {
		carried <- nil
	}
	err := until(ctx, arriveTimeout, all(there, files))
	took := time.Since(began)
	if err := errors.Join(err, <-carried); err != nil {
		return fmt.Errorf("%s: carrying a checkout: %w", m.name, err)
	}
	m.took("checkout_ms", took.Seconds()*1000)
	if err := os.RemoveAll(filepath.Join(m.source, name)); err != nil {
		return err
	}
	if m.carry != nil {
		return os.RemoveAll(there)
	}
	return until(ctx, arriveTimeout, func() bool {
		_, err := os.Lstat(there)
		return errors.Is(err, os.ErrNotExist)
	})
}

// until looks every 5 ms: thousands of events would cost more.
func until(ctx context.Context, limit time.Duration, done func() bool) error {
	for late := time.Now().Add(limit); !done(); {
		if time.Now().After(late) {
			return fmt.Errorf("it is not in place after %v", limit)
		}
		if err := pause.For(ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// large changes one line of a large file. What the sender writes meanwhile, to the connection and
// to files, is the most that can have travelled.
func (m *measurement) large(ctx context.Context, file string, newlines bool) error {
	*m.edits++
	content := big(newlines, *m.edits)
	key := strings.TrimSuffix(filepath.Base(file), ".txt")
	before, err := m.written()
	if err != nil {
		return err
	}
	if err := m.edit(ctx, "big_"+key+"_ms", file, content); err != nil {
		return err
	}
	if m.carry != nil {
		m.took("big_"+key+"_bytes", float64(len(content)))
		return nil
	}
	after, err := m.written()
	if err != nil {
		return err
	}
	m.took("big_"+key+"_bytes", after-before)
	return breathe(ctx)
}

// written is what the sender has written since it began.
func (m *measurement) written() (float64, error) {
	if m.carry != nil {
		return 0, nil
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", m.run.pids[0]))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if n, ok := strings.CutPrefix(line, "wchar: "); ok {
			return strconv.ParseFloat(strings.TrimSpace(n), 64)
		}
	}
	return 0, errors.New("the kernel does not say what a process wrote")
}

// idle is the processor time that both sides take while nothing happens, in percent of one
// processor.
func (m *measurement) idle(ctx context.Context, long time.Duration) error {
	if m.carry != nil {
		return nil
	}
	if err := pause.For(ctx, 3*time.Second); err != nil { // until it is over
		return err
	}
	before, err := m.run.cpu()
	if err != nil {
		return err
	}
	if err := pause.For(ctx, long); err != nil {
		return err
	}
	after, err := m.run.cpu()
	if err != nil {
		return err
	}
	m.took("idle_cpu_pct", 100*(after-before).Seconds()/long.Seconds())
	return nil
}

// cpu is the processor time that a session's processes have had.
func (r *running) cpu() (total time.Duration, err error) {
	for _, pid := range r.pids {
		spent, err := rival.CPU(pid)
		if err != nil {
			return 0, err
		}
		total += spent
	}
	return total, nil
}
