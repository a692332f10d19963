// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervise

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// State is where the supervisor stands. The values are part of the runner's HTTP
// contract.
type State string

// The states; the package comment has the transitions.
const (
	NotConfigured State = "NotConfigured"
	Starting      State = "Starting"
	Running       State = "Running"
	Backoff       State = "Backoff"
	Stopping      State = "Stopping"
	Stopped       State = "Stopped"
)

// Reason says why an attempt ended.
type Reason string

const (
	// Completed means that the app exited with code 0.
	Completed Reason = "Completed"
	// Failed means that the app exited with another code.
	Failed Reason = "Error"
	// Signaled means that a signal that the runner did not send ended the app; KILL often
	// means that it used more memory than it may.
	Signaled Reason = "Signaled"
	// StoppedByRunner means that the runner stopped it, for a restart or at its own end.
	StoppedByRunner Reason = "Stopped"
	// StartFailed means that there was no process; Message says why.
	StartFailed Reason = "StartFailed"
)

// Exit describes the end of one attempt.
type Exit struct {
	Attempt uint32 `json:"attempt"`
	// Code is the exit code, and -1 when there is none.
	Code int `json:"code"`
	// Signal is the name of the signal that ended the app, such as SIGKILL.
	Signal string `json:"signal,omitempty"`
	Reason Reason `json:"reason"`
	// Message says more, for a person: why there was no process, or what may be behind the code.
	Message string    `json:"message,omitempty"`
	Time    time.Time `json:"time"`
}

// Status is a snapshot of the supervisor.
type Status struct {
	State State
	// Message explains the state to a person; empty when there is nothing to
	// explain.
	Message string
	// PID of the app's own process; 0 when there is none.
	PID int
	// Attempt counts the starts of the app, failed ones too, since the runner
	// began.
	Attempt uint32
	// Restarts counts the starts that nobody asked for: the app had ended by
	// itself.
	Restarts int
	// StartTime is when the running process was started, NextStart when the next
	// one will be while the state is Backoff; zero otherwise.
	StartTime, NextStart time.Time
	// LastExit is nil until an attempt has ended and all that it wrote has been read.
	LastExit *Exit
	// QuickEnds counts the attempts in a row that ended by themselves within ten
	// seconds of their start, since a restart was asked for.
	QuickEnds int
}

// Crashing tells whether the app does not stay up: two attempts or more in a row
// ended quickly, and the one that runs now, if one does, has not yet run for ten
// seconds. An attempt that has only begun does not count as a recovery, or the
// answer would change with each of them.
func (s Status) Crashing(now time.Time) bool {
	recovered := s.State == Running && now.Sub(s.StartTime) >= healthyAfter
	return s.QuickEnds >= crashingAfter && !recovered
}

// Started describes the process that a restart made.
type Started struct {
	PID     int
	Attempt uint32
}

var (
	// ErrNotConfigured means that there is no command to run.
	ErrNotConfigured = errors.New("no start command is configured")
	// ErrStopped means that the supervisor has ended or is ending.
	ErrStopped = errors.New("the runner is shutting down")
)

// StartError says that no process could be made from the command.
type StartError struct{ Err error }

func (e *StartError) Error() string { return fmt.Sprintf("starting the app: %v", e.Err) }
func (e *StartError) Unwrap() error { return e.Err }

// describe turns a wait status into an Exit.
func describe(status unix.WaitStatus, attempt uint32, now time.Time) *Exit {
	e := &Exit{Attempt: attempt, Code: -1, Time: now}
	switch {
	case status.Signaled():
		e.Reason, e.Signal = Signaled, unix.SignalName(status.Signal())
		if e.Signal == "" {
			e.Signal = fmt.Sprintf("signal %d", int(status.Signal()))
		}
	case status.ExitStatus() == 0:
		e.Reason, e.Code = Completed, 0
	default:
		e.Reason, e.Code = Failed, status.ExitStatus()
	}
	return e
}

// Explain says an exit in words.
func (e *Exit) Explain() string {
	switch e.Reason {
	case Signaled:
		return "the app was ended by " + e.Signal
	case StartFailed:
		return e.Message
	default:
		said := fmt.Sprintf("the app exited with code %d", e.Code)
		if e.Message != "" {
			said += ": " + e.Message
		}
		return said
	}
}
