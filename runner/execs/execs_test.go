// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package execs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/sandbar-dev/sandbar/runner/ringlog"
	"github.com/sandbar-dev/sandbar/runner/supervise"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// lateAfter is when a test gives up on a real process.
const lateAfter = 20 * time.Second

func manager(t *testing.T, o Options) *Manager {
	t.Helper()
	reaper, err := supervise.NewReaper()
	if err != nil {
		t.Fatal(err)
	}
	o.Reaper, o.Logger = reaper, slog.New(slog.DiscardHandler)
	m := New(o)
	t.Cleanup(func() {
		m.Close()
		reaper.Close()
	})
	return m
}

func start(t *testing.T, m *Manager, script string) *Session {
	t.Helper()
	s, err := m.Start(Command{Args: []string{"sh", "-c", script}, Env: os.Environ(), Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func drop(ringlog.Stream, int64, []byte) error { return nil }

func TestACommandWithoutAClientIsEnded(t *testing.T) {
	m := manager(t, Options{Detached: time.Millisecond})
	s := start(t, m, "exec sleep 1000")
	select {
	case <-s.done:
	case <-time.After(lateAfter):
		t.Fatal("it runs on")
	}
	if s.exit.Signal == "" {
		t.Errorf("it ended with %+v, want a signal", s.exit)
	}
}

func TestAClientKeepsACommandUntilItGoes(t *testing.T) {
	m := manager(t, Options{Detached: 50 * time.Millisecond})
	s := start(t, m, "sleep 0.3; echo done; exec sleep 1000")
	c := s.Attach(t.Context(), 0)
	errDone := errors.New("done")
	if _, err := c.Output(func(_ ringlog.Stream, _ int64, p []byte) error { return errDone }); !errors.Is(err, errDone) {
		t.Errorf("the output ended with %v, want the line that came after the time without a client", err)
	}
	c.Detach()
	select {
	case <-s.done:
	case <-time.After(lateAfter):
		t.Fatal("it runs on without a client")
	}
}

func TestOneThatHasEndedIsForgottenLater(t *testing.T) {
	m := manager(t, Options{Retained: time.Millisecond})
	s := start(t, m, "exit 3")
	c := s.Attach(t.Context(), 0)
	if exit, err := c.Output(drop); err != nil || exit.Code != 3 {
		t.Errorf("it ended with %+v, %v", exit, err)
	}
	c.Detach()
	for late := time.Now().Add(lateAfter); ; {
		if _, err := m.Find(s.ID()); errors.Is(err, ErrNotFound) {
			return
		}
		if time.Now().After(late) {
			t.Fatal("it is remembered")
		}
	}
}

func TestManyThatHaveEndedDoNotKeepNewOnesOut(t *testing.T) {
	m := manager(t, Options{Running: 1})
	for range 5 {
		s := start(t, m, "true")
		<-s.done
	}
	if n := len(m.sessions); n > 2 {
		t.Errorf("%d are remembered, want at most twice the limit", n)
	}
}

func TestNothingIsLeftOfASession(t *testing.T) {
	m := manager(t, Options{})
	dir := t.TempDir()
	s, err := m.Start(Command{
		Args: []string{"sh", "-c", "(trap '' HUP TERM; exec sleep 1000) & sleep 0.05; (sleep 1000 &) ; exit 0"},
		Env:  os.Environ(), Dir: dir,
	})
	if err != nil {
		t.Fatal(err)
	}
	<-s.done
	// What was killed counts until the machine's first process has waited for it, which tells nobody.
	for deadline := time.Now().Add(time.Minute); unix.Kill(-s.child.PID(), 0) != unix.ESRCH; <-time.After(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the command's group has somebody left")
		}
	}
}

// The command of a client that was slow to attach went on without it, and the ring dropped what it had printed.
func TestACommandWaitsForItsFirstClient(t *testing.T) {
	const size = 2 << 20
	s := start(t, manager(t, Options{}), fmt.Sprintf("head -c %d /dev/zero", size))
	waiting := func() bool {
		select {
		case <-s.done:
			t.Fatal("it has printed all of it, which is more than is kept")
		case <-time.After(time.Millisecond):
		}
		return s.hasSlowClient()
	}
	for !waiting() {
	}
	c := s.Attach(t.Context(), 0)
	defer c.Detach()
	var bytes, gaps int64
	exit, err := c.Output(func(_ ringlog.Stream, gap int64, p []byte) error {
		bytes, gaps = bytes+int64(len(p)), gaps+gap
		return nil
	})
	if err != nil || exit.Code != 0 || bytes != size || gaps != 0 {
		t.Errorf("%d bytes came with a gap of %d (%+v, %v), want %d", bytes, gaps, exit, err, size)
	}
}

func TestACommandWhoseFirstClientNeverComesIsEnded(t *testing.T) {
	s := start(t, manager(t, Options{Detached: 10 * time.Millisecond}), "exec cat /dev/zero")
	select {
	case <-s.done:
	case <-time.After(lateAfter):
		t.Fatal("it waits on")
	}
}

func TestACutOffClientGetsNothingMore(t *testing.T) {
	m := manager(t, Options{})
	s := start(t, m, "exec sleep 1000")
	first := s.Attach(t.Context(), 0)
	second := s.Attach(t.Context(), 0)
	if _, err := first.Output(drop); !errors.Is(err, context.Canceled) {
		t.Errorf("the first client ended with %v", err)
	}
	first.Detach() // late, and of no effect on the second
	if s.client != second {
		t.Error("the first client's end detached the second")
	}
	second.Detach()
}

func TestNoMoreCommandsAfterClose(t *testing.T) {
	m := manager(t, Options{})
	m.Close()
	if _, err := m.Start(Command{Args: []string{"true"}, Env: os.Environ()}); !errors.Is(err, ErrClosed) {
		t.Errorf("the error is %v", err)
	}
}

func TestProgramsAreFoundInTheCommandsOwnPath(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/tool", []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/text", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		program, path, want string
	}{
		"in the PATH":                      {"tool", "/none:" + dir, dir + "/tool"},
		"the directory itself is no PATH":  {"tool", ".:", ""},
		"a path counts from the directory": {"./tool", "", dir + "/tool"},
		"what cannot be executed is none":  {"text", dir, ""},
		"a directory is none":              {"/tmp", "", ""},
		"nothing is none":                  {"", dir, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := lookPath(test.program, []string{"PATH=" + test.path}, dir)
			if (err == nil) != (test.want != "") || err == nil && got != test.want {
				t.Errorf("it is %q, %v; want %q", got, err, test.want)
			}
		})
	}
}
