// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervise

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// killWait bounds how long a stop goes on after the first KILL. A process
	// dies of it at once unless the kernel holds it (a dead network disk), or
	// unless the app forks faster than it is killed.
	killWait = 5 * time.Second

	// killPause is how often the process table is looked at while killing: new
	// descendants appear without a signal to us.
	killPause = 5 * time.Millisecond

	// drainWait bounds the wait for the end of the app's pipes once no process of
	// it is left. Only a process that is not the app's, and was given the pipe,
	// can hold it open.
	drainWait = time.Second
)

// StrayError says that processes of the app survived a stop.
type StrayError struct {
	// PIDs are the survivors.
	PIDs []int
}

func (e *StrayError) Error() string {
	return fmt.Sprintf("%d processes of the app could not be killed (the first is PID %d)", len(e.PIDs), e.PIDs[0])
}

// process is one running app. The supervisor's tests have another one, whose time
// is not real.
type process interface {
	pid() int
	// exited gets one value when the app's own process has ended.
	exited() <-chan unix.WaitStatus
	// stop ends all that is left of the app: TERM, then KILL after grace. It
	// returns when no process is left and all output is read. It is called once.
	stop(grace time.Duration) error
}

// launcher starts the command.
type launcher func(attempt uint32) (process, error)

// osProcess is a real process with its descendants.
type osProcess struct {
	reaper  *Reaper
	id      int
	status  <-chan unix.WaitStatus
	pipes   []*os.File
	drained chan struct{}
	// input is the write end of the app's input. Nothing is written to it.
	input int
}

func (p *osProcess) pid() int                       { return p.id }
func (p *osProcess) exited() <-chan unix.WaitStatus { return p.status }

// launch returns the launcher for a real command.
func launch(reaper *Reaper, o *Options) launcher {
	return func(attempt uint32) (process, error) {
		return startProcess(reaper, o, attempt)
	}
}

// startProcess starts the command with its output in two pipes that are being drained when it returns. Its
// input is a pipe, too, in which nothing ever arrives and which does not end before the process does: watch
// modes of esbuild, Tailwind and react-scripts end with their input, so that nothing is left of them when a
// terminal is closed.
func startProcess(reaper *Reaper, o *Options, attempt uint32) (process, error) {
	var in [2]int
	if err := unix.Pipe2(in[:], unix.O_CLOEXEC); err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(in[0]) }()
	p, err := startWithInput(reaper, o, attempt, in[0])
	if err != nil {
		return nil, errors.Join(err, unix.Close(in[1]))
	}
	p.input = in[1]
	return p, nil
}

func startWithInput(reaper *Reaper, o *Options, attempt uint32, input int) (*osProcess, error) {
	outRead, outWrite, err := pipe("stdout")
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(outWrite) }()
	errRead, errWrite, err := pipe("stderr")
	if err != nil {
		_ = outRead.Close()
		return nil, err
	}
	defer func() { _ = unix.Close(errWrite) }()

	pid, status, err := reaper.start(func() (int, error) {
		// Not os/exec: it would wait for the child by itself.
		return syscall.ForkExec(o.Args[0], o.Args, &syscall.ProcAttr{
			Dir: o.Dir, Env: o.Env(),
			Files: []uintptr{uintptr(input), uintptr(outWrite), uintptr(errWrite)},
			Sys:   &syscall.SysProcAttr{Setpgid: true},
		})
	})
	if err != nil {
		_, _ = outRead.Close(), errRead.Close()
		return nil, err
	}
	p := &osProcess{
		reaper: reaper, id: pid, status: status,
		pipes: []*os.File{outRead, errRead}, drained: make(chan struct{}),
	}
	var draining sync.WaitGroup
	draining.Go(func() { o.Drain(outRead, unix.Stdout, attempt) })
	draining.Go(func() { o.Drain(errRead, unix.Stderr, attempt) })
	go func() {
		draining.Wait()
		_, _ = outRead.Close(), errRead.Close()
		close(p.drained)
	}()
	return p, nil
}

// pipe returns a read end that honours deadlines and a write end that blocks.
// O_NONBLOCK belongs to the open file, which the app shares: os.Pipe would hand
// the app a pipe on which its writes fail when it is full.
func pipe(name string) (*os.File, int, error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, 0, err
	}
	if err := unix.SetNonblock(fds[0], true); err != nil {
		return nil, 0, errors.Join(err, unix.Close(fds[0]), unix.Close(fds[1]))
	}
	return os.NewFile(uintptr(fds[0]), name), fds[1], nil
}

func (p *osProcess) stop(grace time.Duration) error {
	err := p.stopAll(grace)
	_ = unix.Close(p.input)
	select {
	case <-p.drained:
	case <-time.After(drainWait):
		for _, f := range p.pipes {
			_ = f.Close() // ends the draining
		}
		<-p.drained
	}
	return err
}

// stopAll ends the app's own process, its group, and every other descendant.
func (p *osProcess) stopAll(grace time.Duration) error {
	reaped, unwatch := p.reaper.watch()
	defer unwatch()

	left, err := p.signal(unix.SIGTERM)
	expired := time.NewTimer(grace)
	defer expired.Stop()
	// The last descendant to end has no parent but us, so its end wakes us; there
	// is nothing to poll.
	for waiting := true; waiting && err == nil && len(left) > 0; {
		select {
		case <-reaped:
			left, err = p.left()
		case <-expired.C:
			waiting = false
		}
	}
	giveUp := time.NewTimer(killWait)
	defer giveUp.Stop()
	for err == nil && len(left) > 0 {
		if left, err = p.signal(unix.SIGKILL); err != nil || len(left) == 0 {
			break
		}
		select {
		case <-reaped:
		case <-time.After(killPause):
		case <-giveUp.C:
			return &StrayError{PIDs: left}
		}
		left, err = p.left()
	}
	if err != nil {
		// Without a process table the group is all that can be reached.
		p.reaper.signalGroup(p.id, unix.SIGKILL)
	}
	return err
}

// left returns the processes of the app that are still there.
func (p *osProcess) left() ([]int, error) {
	before := p.reaper.others(p.id)
	return descendants(os.Getpid(), func() map[int]bool {
		// A command that was started since is in the process table and must be spared, and so must
		// what one has left that has ended since.
		others := p.reaper.others(p.id)
		maps.Copy(others, before)
		return others
	})
}

// signal signals the app's group in one step, which nothing can fork past, and
// then each descendant outside of it. It returns whom it found.
func (p *osProcess) signal(sig unix.Signal) ([]int, error) {
	wholeGroup := p.reaper.signalGroup(p.id, sig)
	left, err := p.left()
	for _, pid := range left {
		group, groupErr := unix.Getpgid(pid)
		if groupErr != nil || wholeGroup && group == p.id {
			continue // gone, or signalled already: a second TERM makes some apps quit at once
		}
		// It may have ended since the table was read; then it is gone as wanted.
		_ = unix.Kill(pid, sig)
	}
	return left, err
}
