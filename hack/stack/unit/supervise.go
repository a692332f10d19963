// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package unit

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The pause before a process is started again: none after it had run well, and
// from firstBackoff, doubled each time, up to maxBackoff when it keeps failing.
const (
	ranWell      = 5 * time.Second
	firstBackoff = 250 * time.Millisecond
	maxBackoff   = 5 * time.Second
)

// supervisor starts and collects the processes of a unit.
//
// All waiting goes through one wildcard wait (reap), because the first process
// of a PID namespace is also the parent of every orphan: with os/exec waiting
// for its own children beside it, each would steal the other's exit codes.
type supervisor struct {
	spec Spec
	log  *slog.Logger

	mu      sync.Mutex
	waiting map[int]chan unix.WaitStatus
	status  Status
}

// reap collects every process that ends and tells whoever waits for it.
func (s *supervisor) reap() {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, unix.SIGCHLD)
	for range ended {
		for s.reapOne() {
		}
	}
}

// reapOne reports whether there was a process to collect. It holds the lock
// that start holds, so that a child cannot be collected before start has said
// who waits for it.
func (s *supervisor) reapOne() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	var status unix.WaitStatus
	pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
	if err == unix.EINTR {
		return true
	}
	if err != nil || pid <= 0 {
		return false
	}
	if ch, ok := s.waiting[pid]; ok {
		delete(s.waiting, pid)
		ch <- status
	}
	return true
}

// keepRunning starts a process and starts it again whenever it has ended.
func (s *supervisor) keepRunning(p Process) {
	backoff := firstBackoff
	for {
		for _, address := range p.After {
			waitFor(context.Background(), address)
		}
		began := time.Now()
		ended, err := s.start(p)
		if err == nil {
			status := <-ended
			err = exitError(status)
		}
		s.ended(p.Name, err)
		s.log.Warn("process ended", "process", p.Name, "after", time.Since(began).Round(time.Millisecond), "exit", err)
		if time.Since(began) >= ranWell {
			backoff = firstBackoff
			continue
		}
		time.Sleep(backoff)
		backoff = min(2*backoff, maxBackoff)
	}
}

// start starts a process once and returns where its end will be told.
func (s *supervisor) start(p Process) (<-chan unix.WaitStatus, error) {
	out, err := os.OpenFile(filepath.Join(s.spec.LogDir, p.Name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	pid, err := syscall.ForkExec(p.Args[0], p.Args, &syscall.ProcAttr{
		Dir:   p.Dir,
		Env:   append([]string{"HOME=/root"}, p.Env...),
		Files: []uintptr{null.Fd(), out.Fd(), out.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", p.Args[0], err)
	}
	ended := make(chan unix.WaitStatus, 1)
	s.waiting[pid] = ended
	before := s.status.Processes[p.Name]
	s.status.Processes[p.Name] = ProcessStatus{
		PID: pid, Starts: before.Starts + 1, Started: time.Now().UTC(), LastExit: before.LastExit,
	}
	s.publish()
	return ended, nil
}

// ended records that a process is not running and why.
func (s *supervisor) ended(name string, why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.status.Processes[name]
	p.PID, p.LastExit = 0, why.Error()
	s.status.Processes[name] = p
	s.publish()
}

// publish writes the status for the host to read.
func (s *supervisor) publish() {
	if err := writeJSON(statusFile(s.spec.Dir, s.spec.Name), s.status); err != nil {
		s.log.Error("cannot write the status", "error", err)
	}
}

func exitError(status unix.WaitStatus) error {
	if status.Signaled() {
		return fmt.Errorf("killed by %s", unix.SignalName(status.Signal()))
	}
	return fmt.Errorf("exit code %d", status.ExitStatus())
}

// readiness asks a server of the unit's own whether it is ready. It sends nothing
// secret and believes nothing but the status, so it need not verify whom it asks.
var readiness = http.Client{
	Timeout: time.Second,
	Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // see above
		DisableKeepAlives: true,
	},
}

// waitFor returns once the address accepts a connection, or the URL answers.
func waitFor(ctx context.Context, address string) {
	network, at, _ := strings.Cut(address, ":")
	dialer := net.Dialer{Timeout: time.Second}
	_ = Poll(ctx, func() bool {
		if network == "https" {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
			if err != nil {
				return false
			}
			response, err := readiness.Do(request)
			if err != nil {
				return false
			}
			response.Body.Close()
			return response.StatusCode == http.StatusOK
		}
		conn, err := dialer.DialContext(ctx, network, at)
		if err != nil {
			return false
		}
		conn.Close()
		return true
	})
}
