// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervise

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// DefaultGrace is how long the app has between TERM and KILL.
	DefaultGrace = 5 * time.Second

	// backoffLeast and backoffMost bound the delay before an app that ended by
	// itself is started again.
	backoffLeast = 500 * time.Millisecond
	backoffMost  = 30 * time.Second

	// healthyAfter is how long an app must have run for its end to count as a new
	// trouble and not as the same one again.
	healthyAfter = 10 * time.Second

	// crashingAfter is how many quick ends in a row make a crashing app: one may be
	// an accident.
	crashingAfter = 2

	// statusWait bounds the wait for the exit status of a process that is known to
	// have ended; only one that the kernel holds needs it.
	statusWait = time.Second
)

// Options describe the app.
type Options struct {
	// Args is the command with its arguments; Args[0] is an absolute path. Empty:
	// nothing is started.
	Args []string
	// Dir is the working directory. Env returns the whole environment; it is asked
	// before each start.
	Dir string
	Env func() []string
	// Grace is the time between TERM and KILL; zero means [DefaultGrace].
	Grace time.Duration
	// Drain reads what the app writes, until the pipe ends, and must not stop
	// before. fd is 1 or 2. It runs in a goroutine of its own per pipe.
	Drain func(pipe *os.File, fd int, attempt uint32)
	// Logger gets what the supervisor does; the app's command and output are not
	// part of it, but for the last lines of an app that does not stay up.
	Logger *slog.Logger
	// LastLines returns what the app wrote last, a few short lines. Nil: they are
	// not logged.
	LastLines func() []string
	// Hint returns what may be behind an exit code of the command other than zero, for a person; empty if nothing is
	// known. Nil: nothing is.
	Hint func(code int) string
}

// Supervisor keeps one app running.
type Supervisor struct {
	options  Options
	launch   launcher
	reaper   *Reaper // of the real command; nil in tests of the supervisor alone
	requests chan request
	done     chan struct{}

	mu     sync.Mutex
	status Status

	// The rest belongs to the goroutine of Run.
	process process
	delay   time.Duration
	retry   *time.Timer
}

// request asks for a restart. The answer channel has room for the answer.
type request struct{ answer chan<- answer }

type answer struct {
	started Started
	err     error
}

// New returns a supervisor of a real command. Nothing happens before
// [Supervisor.Run].
func New(reaper *Reaper, o Options) *Supervisor {
	s := newSupervisor(o, nil)
	s.launch, s.reaper = launch(reaper, &s.options), reaper
	return s
}

func newSupervisor(o Options, l launcher) *Supervisor {
	if o.Grace <= 0 {
		o.Grace = DefaultGrace
	}
	return &Supervisor{
		options: o, launch: l, requests: make(chan request), done: make(chan struct{}),
		status: Status{State: NotConfigured}, delay: backoffLeast,
	}
}

// Status returns a snapshot. It never waits for the app.
func (s *Supervisor) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}

// Restart stops the app, if it runs, and starts it. It returns when the new process
// has been started, with [ErrNotConfigured], [ErrStopped], a [*StartError], or the
// context's error; in the last case the restart goes on. Requests that come while
// the app is being stopped share its one new start.
func (s *Supervisor) Restart(ctx context.Context) (Started, error) {
	answers := make(chan answer, 1)
	select {
	case s.requests <- request{answers}:
	case <-s.done:
		return Started{}, ErrStopped
	case <-ctx.Done():
		return Started{}, ctx.Err()
	}
	select {
	case a := <-answers:
		return a.started, a.err
	case <-ctx.Done():
		return Started{}, ctx.Err()
	}
}

// Run starts the app and keeps it running until ctx ends; then it stops the app
// and returns. It is called once.
func (s *Supervisor) Run(ctx context.Context) {
	defer close(s.done)
	// Stopped timers keep an empty channel, so one timer serves all delays.
	s.retry = time.NewTimer(time.Hour)
	s.retry.Stop()
	if len(s.options.Args) > 0 {
		_, _ = s.start() // a failure is in the status, and is tried again
	}
	for {
		var exited <-chan unix.WaitStatus
		if s.process != nil {
			exited = s.process.exited()
		}
		select {
		case <-ctx.Done():
			s.stop()
			s.publish(func(st *Status) { st.State, st.Message = Stopped, "" })
			return
		case r := <-s.requests:
			s.restart(r)
		case status := <-exited:
			s.ended(status)
		case <-s.retry.C:
			s.publish(func(st *Status) { st.Restarts++ })
			_, _ = s.start()
		}
	}
}

// restart answers r and all requests that come until the new start.
func (s *Supervisor) restart(r request) {
	waiting := []request{r}
	var a answer
	if len(s.options.Args) == 0 {
		a.err = ErrNotConfigured
	} else {
		s.stop()
		s.delay = backoffLeast
		s.publish(func(st *Status) { st.QuickEnds = 0 })
		for more := true; more; {
			select {
			case r := <-s.requests:
				waiting = append(waiting, r)
			default:
				more = false
			}
		}
		a.started, a.err = s.start()
	}
	for _, r := range waiting {
		r.answer <- a
	}
}

// start makes a new attempt. A failed one is tried again like a crash.
func (s *Supervisor) start() (Started, error) {
	s.retry.Stop()
	var attempt uint32
	s.publish(func(st *Status) {
		st.Attempt++
		st.State, st.Message, st.NextStart = Starting, "", time.Time{}
		attempt = st.Attempt
	})
	p, err := s.launch(attempt)
	if err != nil {
		failure := &StartError{Err: err}
		s.options.Logger.Warn("the app could not be started", "attempt", attempt, "error", err)
		s.publish(func(st *Status) { st.QuickEnds++ })
		s.backOff(&Exit{
			Attempt: attempt, Code: -1, Reason: StartFailed, Message: failure.Error(), Time: time.Now(),
		}, nil)
		return Started{}, failure
	}
	s.process = p
	s.options.Logger.Info("the app was started", "attempt", attempt, "pid", p.pid())
	s.publish(func(st *Status) {
		st.State, st.PID, st.StartTime = Running, p.pid(), time.Now()
	})
	return Started{PID: p.pid(), Attempt: attempt}, nil
}

// ended handles an app that ended by itself.
func (s *Supervisor) ended(status unix.WaitStatus) {
	before := s.Status()
	exit := describe(status, before.Attempt, time.Now())
	if exit.Reason == Failed && s.options.Hint != nil {
		exit.Message = s.options.Hint(exit.Code)
	}
	quickEnds := before.QuickEnds + 1
	if exit.Time.Sub(before.StartTime) >= healthyAfter {
		s.delay, quickEnds = backoffLeast, 0
	}
	s.publish(func(st *Status) { st.State, st.PID, st.Message = Stopping, 0, exit.Explain() })
	// What it left behind would hold its port and its files against the next one.
	err := s.process.stop(s.options.Grace)
	s.process = nil
	// Not before: a client that sees the end looks for the last lines in the log, which has them only now.
	s.publish(func(st *Status) { st.LastExit, st.QuickEnds = exit, quickEnds })
	s.logEnd(exit, quickEnds)
	s.backOff(exit, err)
}

// logEnd logs the end of an attempt, when all that the app wrote has been read. The
// controllers of the provider find the line in the container's log, and tell the
// instance's owner of an app that does not stay up.
func (s *Supervisor) logEnd(exit *Exit, quickEnds int) {
	args := []any{"attempt", exit.Attempt, "reason", exit.Reason, "code", exit.Code, "signal", exit.Signal}
	if quickEnds >= crashingAfter && s.options.LastLines != nil {
		args = append(args, "explained", exit.Explain(), "lastLines", s.options.LastLines())
	}
	s.options.Logger.Warn("the app ended", args...)
}

// backOff waits for the next start.
func (s *Supervisor) backOff(exit *Exit, stray error) {
	delay := s.delay
	s.delay = min(2*s.delay, backoffMost)
	message := fmt.Sprintf("%s; it is started again after %s", exit.Explain(), delay)
	if stray != nil {
		message += fmt.Sprintf("; %v", stray)
	}
	s.retry.Reset(delay)
	s.publish(func(st *Status) {
		st.State, st.Message, st.LastExit = Backoff, message, exit
		st.PID, st.StartTime, st.NextStart = 0, time.Time{}, time.Now().Add(delay)
	})
}

// stop ends the app, if it runs, and any wait for its next start.
func (s *Supervisor) stop() {
	s.retry.Stop()
	p := s.process
	if p == nil {
		return
	}
	s.process = nil
	var attempt uint32
	s.publish(func(st *Status) {
		st.State, st.Message = Stopping, ""
		attempt = st.Attempt
	})
	err := p.stop(s.options.Grace)
	exit := &Exit{Attempt: attempt, Code: -1, Reason: StoppedByRunner, Time: time.Now()}
	select {
	case status := <-p.exited():
		exit = describe(status, attempt, time.Now())
		exit.Reason = StoppedByRunner
	case <-time.After(statusWait):
	}
	if err != nil {
		exit.Message = err.Error()
		s.options.Logger.Error("the app could not be stopped whole", "error", err)
	}
	s.publish(func(st *Status) { st.PID, st.StartTime, st.LastExit = 0, time.Time{}, exit })
}

func (s *Supervisor) publish(change func(*Status)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.status)
}
