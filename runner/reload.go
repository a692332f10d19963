// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	syncwire "github.com/sandbar-dev/sandbar/apis/wire/sync"
	"github.com/sandbar-dev/sandbar/pkg/gitignore"
	"github.com/sandbar-dev/sandbar/runner/supervise"
)

const (
	// reloadWait is how long a sync waits for its rules. An installation of packages takes
	// longer than callers and proxies wait; then it goes on, and GET /status tells its end.
	reloadWait = 20 * time.Second
	// reloadTimeout bounds one command; then it is killed, and has failed.
	reloadTimeout = 10 * time.Minute
	// maxReloadRules bounds what a Template may set.
	maxReloadRules = 16
)

// ReloadRule says what follows a sync that changed certain paths.
type ReloadRule struct {
	// Paths are patterns in the syntax of a .gitignore line.
	Paths []string `json:"paths"`
	// Command is run by /bin/sh -c in the workspace; empty: none.
	Command string `json:"command,omitempty"`
	// Restart restarts the app afterwards; nil means true.
	Restart *bool `json:"restart,omitempty"`
}

// parseReload reads the rules from their JSON.
func parseReload(text string) ([]ReloadRule, error) {
	if text == "" {
		return nil, nil
	}
	var rules []ReloadRule
	if err := json.Unmarshal([]byte(text), &rules); err != nil {
		return nil, fmt.Errorf("%s must be a list of rules: %w", envReloadRules, err)
	}
	if len(rules) > maxReloadRules {
		return nil, fmt.Errorf("%s has %d rules, and may have %d", envReloadRules, len(rules), maxReloadRules)
	}
	return rules, nil
}

// matches tells whether one of the paths is meant.
func (r ReloadRule) matches(paths []string) bool {
	var patterns gitignore.Rules
	patterns.Add("", strings.Join(r.Paths, "\n"))
	return slices.ContainsFunc(paths, func(path string) bool { return patterns.Ignored(path, false) })
}

func (r ReloadRule) restarts() bool { return r.Restart == nil || *r.Restart }

// reload is the work that one or several syncs set off.
type reload struct {
	rules []int
	// restart is asked for by a caller, whatever the rules say.
	restart bool
	done    chan struct{}
	reply   syncwire.Reload // after done
}

// reloader runs the rules, one sync's after the other's: two installations of packages at once
// would break the workspace. What is set off while commands run is put together into one.
type reloader struct {
	rules []ReloadRule
	// run runs one command to its end.
	run func(ctx context.Context, command string) error
	// restart restarts the app.
	restart func(ctx context.Context) error

	ctx   context.Context
	close context.CancelFunc
	wg    sync.WaitGroup

	mu            sync.Mutex
	closed        bool
	current, next *reload
	last          *reload
}

func newReloader(rules []ReloadRule, run func(context.Context, string) error, restart func(context.Context) error) *reloader {
	l := &reloader{rules: rules, run: run, restart: restart}
	l.ctx, l.close = context.WithCancel(context.Background())
	return l
}

// Close kills the command that runs and returns when it has ended. Nothing is set off any more.
func (l *reloader) Close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.close()
	l.wg.Wait()
}

// match returns the numbers of the rules that mean one of the paths.
func (l *reloader) match(paths []string) []int {
	var matched []int
	for i, rule := range l.rules {
		if rule.matches(paths) {
			matched = append(matched, i)
		}
	}
	return matched
}

// begin sets off rules; nil if there are none. With restart, the app is restarted also if no rule
// wants it.
func (l *reloader) begin(matched []int, restart bool) *reload {
	if len(matched) == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	if l.next == nil {
		l.next = &reload{done: make(chan struct{})}
	}
	job := l.next
	job.rules = append(job.rules, matched...)
	slices.Sort(job.rules)
	job.rules = slices.Compact(job.rules)
	job.restart = job.restart || restart
	if l.current == nil {
		l.advance()
	}
	return job
}

// advance starts what waits. The mutex is held.
func (l *reloader) advance() {
	if l.current, l.next = l.next, nil; l.current == nil {
		return
	}
	job := l.current
	l.last = job
	l.wg.Go(func() {
		job.reply = l.work(job)
		close(job.done)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.advance()
	})
}

// work runs the commands in order and then restarts the app. A command that fails leaves the app
// as it is: what runs is worth more than what cannot be built.
func (l *reloader) work(job *reload) syncwire.Reload {
	reply := syncwire.Reload{State: syncwire.ReloadDone, Rules: job.rules}
	restart := job.restart
	for _, i := range job.rules {
		rule := l.rules[i]
		restart = restart || rule.restarts()
		if rule.Command == "" {
			continue
		}
		ctx, cancel := context.WithTimeout(l.ctx, reloadTimeout)
		err := l.run(ctx, rule.Command)
		cancel()
		if err != nil {
			reply.State = syncwire.ReloadFailed
			reply.Message = fmt.Sprintf("the command of rule %d (%s) %v; the app goes on as it was, and the log has what it said",
				i, strings.Join(rule.Paths, ", "), err)
			return reply
		}
	}
	if !restart {
		return reply
	}
	ctx, cancel := context.WithTimeout(l.ctx, defaultRestartTimeout)
	defer cancel()
	if err := l.restart(ctx); err != nil {
		reply.State, reply.Message = syncwire.ReloadFailed, "the app was not restarted: "+classify(err).Message
		return reply
	}
	reply.Restarted = true
	return reply
}

// wait returns what has become of a job, after reloadWait at the latest.
func (j *reload) wait(ctx context.Context) *syncwire.Reload {
	timer := time.NewTimer(reloadWait)
	defer timer.Stop()
	select {
	case <-j.done:
	case <-timer.C:
	case <-ctx.Done():
	}
	return j.state()
}

func (j *reload) state() *syncwire.Reload {
	select {
	case <-j.done:
		return &j.reply
	default:
		return &syncwire.Reload{State: syncwire.ReloadRunning, Rules: []int{}, Message: "the commands run; GET /status tells their end"}
	}
}

// status tells of the rules that were set off last; nil if none ever were.
func (l *reloader) status() *syncwire.Reload {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last == nil {
		return nil
	}
	return l.last.state()
}

// commandDrainWait bounds the wait for the end of a command's output once it and its session
// have ended: a process that left the session may hold the pipes for ever.
const commandDrainWait = time.Second

// shellRunner returns the function that runs a command beside the app, with its output in the
// app's log.
func shellRunner(reaper *supervise.Reaper, dir string, env func() []string, drain func(pipe *os.File, fd int)) func(context.Context, string) error {
	return func(ctx context.Context, command string) error {
		null, err := os.Open(os.DevNull)
		if err != nil {
			return fmt.Errorf("could not be started: %w", err)
		}
		defer null.Close()
		out, outWrite, err := blockingPipe()
		if err != nil {
			return fmt.Errorf("could not be started: %w", err)
		}
		defer out.Close()
		failed, failedWrite, err := blockingPipe()
		if err != nil {
			_ = outWrite.Close()
			return fmt.Errorf("could not be started: %w", err)
		}
		defer failed.Close()
		child, err := reaper.Start([]string{shell, "-c", command}, env(), dir, [3]*os.File{null, outWrite, failedWrite}, false)
		// Ours must be the command's alone, or its end would not be the end of the output.
		_, _ = outWrite.Close(), failedWrite.Close()
		if err != nil {
			return fmt.Errorf("could not be started: %w", err)
		}
		drained := make(chan struct{})
		go func() {
			defer close(drained)
			var both sync.WaitGroup
			both.Go(func() { drain(out, unix.Stdout) })
			both.Go(func() { drain(failed, unix.Stderr) })
			both.Wait()
		}()
		err = ending(ctx, child)
		child.KillRest()
		select {
		case <-drained:
		case <-time.After(commandDrainWait):
			_, _ = out.Close(), failed.Close() // ends the draining
			<-drained
		}
		return err
	}
}

// ending returns how a command ended; it is killed when ctx ends.
func ending(ctx context.Context, child *supervise.Child) error {
	select {
	case status := <-child.Exited():
		return exitError(status)
	case <-ctx.Done():
		child.Signal(unix.SIGKILL)
		<-child.Exited()
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return fmt.Errorf("was killed after %s", reloadTimeout)
		}
		return errors.New("was killed because the runner ends")
	}
}

// exitError is nil for code 0, else it says how the command ended.
func exitError(status unix.WaitStatus) error {
	switch {
	case status.Signaled():
		return fmt.Errorf("was ended by %s", unix.SignalName(status.Signal()))
	case status.ExitStatus() != 0:
		return fmt.Errorf("exited with code %d", status.ExitStatus())
	}
	return nil
}

// blockingPipe returns a read end that honours deadlines and a write end that blocks, as the
// command expects: O_NONBLOCK belongs to the open file, which the command shares.
func blockingPipe() (read, write *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, err
	}
	if err := unix.SetNonblock(fds[0], true); err != nil {
		return nil, nil, errors.Join(err, unix.Close(fds[0]), unix.Close(fds[1]))
	}
	return os.NewFile(uintptr(fds[0]), "read end"), os.NewFile(uintptr(fds[1]), "write end"), nil
}
