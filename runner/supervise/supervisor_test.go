// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervise

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// fakeProcess ends when it is told to. Its time is the bubble's.
type fakeProcess struct {
	id     int
	status chan unix.WaitStatus
	// stopping is how long stop takes.
	stopping time.Duration
	stopped  bool
}

func (p *fakeProcess) pid() int                       { return p.id }
func (p *fakeProcess) exited() <-chan unix.WaitStatus { return p.status }

func (p *fakeProcess) stop(time.Duration) error {
	time.Sleep(p.stopping)
	p.stopped = true
	select {
	case p.status <- unix.WaitStatus(unix.SIGTERM):
	default: // it had ended by itself
	}
	return nil
}

// exit ends the process with an exit code.
func (p *fakeProcess) exit(code int) { p.status <- unix.WaitStatus(code << 8) }

// fakeApp launches fake processes.
type fakeApp struct {
	mu        sync.Mutex
	processes []*fakeProcess
	err       error
	stopping  time.Duration
}

func (a *fakeApp) launch(attempt uint32) (process, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err != nil {
		return nil, a.err
	}
	p := &fakeProcess{id: 100 + int(attempt), status: make(chan unix.WaitStatus, 1), stopping: a.stopping}
	a.processes = append(a.processes, p)
	return p, nil
}

func (a *fakeApp) last() *fakeProcess {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.processes[len(a.processes)-1]
}

// supervised runs test with a supervisor of app, within a bubble.
func supervised(t *testing.T, app *fakeApp, args []string, test func(t *testing.T, s *Supervisor)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newSupervisor(Options{Args: args, Logger: slog.New(slog.DiscardHandler)}, app.launch)
		ctx, cancel := context.WithCancel(t.Context())
		go s.Run(ctx)
		synctest.Wait()
		test(t, s)
		cancel()
		<-s.done
		if got := s.Status(); got.State != Stopped || got.PID != 0 {
			t.Errorf("the state at the end is %s with PID %d, want Stopped with none", got.State, got.PID)
		}
		for _, p := range app.processes {
			if !p.stopped {
				t.Errorf("process %d was not stopped", p.id)
			}
		}
	})
}

var app = []string{"/app"}

// delay returns for how long the supervisor waits before the next start.
func delay(t *testing.T, s *Supervisor) time.Duration {
	t.Helper()
	synctest.Wait()
	st := s.Status()
	if st.State != Backoff {
		t.Fatalf("the state is %s, want Backoff", st.State)
	}
	return time.Until(st.NextStart)
}

func TestACrashingAppIsStartedAgainAfterGrowingDelays(t *testing.T) {
	fake := &fakeApp{}
	supervised(t, fake, app, func(t *testing.T, s *Supervisor) {
		var got []time.Duration
		for range 9 {
			fake.last().exit(3)
			d := delay(t, s)
			got = append(got, d)
			time.Sleep(d)
			synctest.Wait()
			if st := s.Status(); st.State != Running {
				t.Fatalf("the state after the delay is %s, want Running", st.State)
			}
		}
		want := []time.Duration{
			500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second,
			16 * time.Second, 30 * time.Second, 30 * time.Second, 30 * time.Second,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("delays (-want +got):\n%s", diff)
		}
		if st := s.Status(); st.Restarts != 9 || st.Attempt != 10 {
			t.Errorf("%d restarts, attempt %d; want 9 and 10", st.Restarts, st.Attempt)
		}
	})
}

func TestTheDelayBeginsAnew(t *testing.T) {
	for name, recovery := range map[string]func(*testing.T, *Supervisor){
		"after the app ran well for ten seconds": func(*testing.T, *Supervisor) { time.Sleep(healthyAfter) },
		"after a restart was asked for": func(t *testing.T, s *Supervisor) {
			if _, err := s.Restart(t.Context()); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			fake := &fakeApp{}
			supervised(t, fake, app, func(t *testing.T, s *Supervisor) {
				for range 4 {
					fake.last().exit(1)
					time.Sleep(delay(t, s))
					synctest.Wait()
				}
				recovery(t, s)
				fake.last().exit(1)
				if got := delay(t, s); got != backoffLeast {
					t.Errorf("the delay is %s, want %s", got, backoffLeast)
				}
			})
		})
	}
}

func TestAnAppIsCrashingWhenItDoesNotStayUp(t *testing.T) {
	end := func(t *testing.T, fake *fakeApp, s *Supervisor, after time.Duration) {
		t.Helper()
		time.Sleep(after)
		fake.last().exit(1)
		delay(t, s)
	}
	again := func(t *testing.T, s *Supervisor) {
		t.Helper()
		time.Sleep(delay(t, s))
		synctest.Wait()
	}
	for name, test := range map[string]struct {
		do   func(*testing.T, *fakeApp, *Supervisor)
		want bool
	}{
		"not after its first end": {func(t *testing.T, fake *fakeApp, s *Supervisor) {
			end(t, fake, s, time.Second)
		}, false},
		"after a second quick end": {func(t *testing.T, fake *fakeApp, s *Supervisor) {
			end(t, fake, s, time.Second)
			again(t, s)
			end(t, fake, s, time.Second)
		}, true},
		"also while the next attempt is young": {func(t *testing.T, fake *fakeApp, s *Supervisor) {
			for range 2 {
				end(t, fake, s, time.Second)
				again(t, s)
			}
			time.Sleep(healthyAfter - time.Millisecond)
		}, true},
		"not when the next attempt has run for ten seconds": {func(t *testing.T, fake *fakeApp, s *Supervisor) {
			for range 2 {
				end(t, fake, s, time.Second)
				again(t, s)
			}
			time.Sleep(healthyAfter)
		}, false},
		"not when each attempt ran for ten seconds": {func(t *testing.T, fake *fakeApp, s *Supervisor) {
			for range 3 {
				end(t, fake, s, healthyAfter)
				again(t, s)
			}
		}, false},
		"not after a restart was asked for": {func(t *testing.T, fake *fakeApp, s *Supervisor) {
			for range 2 {
				end(t, fake, s, time.Second)
				again(t, s)
			}
			if _, err := s.Restart(t.Context()); err != nil {
				t.Error(err)
			}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			fake := &fakeApp{}
			supervised(t, fake, app, func(t *testing.T, s *Supervisor) {
				test.do(t, fake, s)
				if st := s.Status(); st.Crashing(time.Now()) != test.want {
					t.Errorf("crashing is %v after %d quick ends in state %s", !test.want, st.QuickEnds, st.State)
				}
			})
		})
	}
}

func TestStatusTellsWhyTheAppEnded(t *testing.T) {
	for name, test := range map[string]struct {
		status  unix.WaitStatus
		want    Exit
		message string
	}{
		"with success": {
			0,
			Exit{Attempt: 1, Code: 0, Reason: Completed},
			"the app exited with code 0; it is started again after 500ms",
		},
		"with an exit code": {
			127 << 8,
			Exit{Attempt: 1, Code: 127, Reason: Failed},
			"the app exited with code 127; it is started again after 500ms",
		},
		"by a signal": {
			unix.WaitStatus(unix.SIGKILL),
			Exit{Attempt: 1, Code: -1, Signal: "SIGKILL", Reason: Signaled},
			"the app was ended by SIGKILL; it is started again after 500ms",
		},
		"by a signal without a name": {
			40,
			Exit{Attempt: 1, Code: -1, Signal: "signal 40", Reason: Signaled},
			"the app was ended by signal 40; it is started again after 500ms",
		},
	} {
		t.Run(name, func(t *testing.T) {
			fake := &fakeApp{}
			supervised(t, fake, app, func(t *testing.T, s *Supervisor) {
				fake.last().status <- test.status
				delay(t, s)
				st := s.Status()
				test.want.Time = st.LastExit.Time
				if diff := cmp.Diff(test.want, *st.LastExit); diff != "" {
					t.Errorf("last exit (-want +got):\n%s", diff)
				}
				if st.Message != test.message {
					t.Errorf("the message is %q, want %q", st.Message, test.message)
				}
			})
		})
	}
}

func TestWhatMayBeBehindAnExitCodeIsTold(t *testing.T) {
	var logged bytes.Buffer
	s := newSupervisor(Options{
		Args: app, Logger: slog.New(slog.NewJSONHandler(&logged, nil)),
		Hint: func(code int) string { return fmt.Sprint("a hint for ", code) },
	}, nil)
	for status, want := range map[unix.WaitStatus]string{
		127 << 8: "the app exited with code 127: a hint for 127", 0: "the app exited with code 0", 9: "the app was ended by SIGKILL",
	} {
		s.process, s.retry = &fakeProcess{status: make(chan unix.WaitStatus, 1)}, time.NewTimer(time.Hour)
		s.ended(status)
		if st := s.Status(); !strings.HasPrefix(st.Message, want+"; it is started again") || st.LastExit.Explain() != want {
			t.Errorf("after %#x: %q, %q", status, st.Message, st.LastExit.Explain())
		}
	}
}

func TestRestartStopsTheOldProcessAndAnswersWithTheNewOne(t *testing.T) {
	fake := &fakeApp{}
	supervised(t, fake, app, func(t *testing.T, s *Supervisor) {
		old := fake.last()
		started, err := s.Restart(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(Started{PID: 102, Attempt: 2}, started); diff != "" || !old.stopped {
			t.Errorf("the old one is stopped: %v; started (-want +got):\n%s", old.stopped, diff)
		}
		st := s.Status()
		if st.State != Running || st.PID != 102 || st.Restarts != 0 || st.LastExit.Reason != StoppedByRunner {
			t.Errorf("the status is %+v, want the new process after one that was stopped", st)
		}
	})
}

func TestRestartEndsTheWaitForTheNextStart(t *testing.T) {
	fake := &fakeApp{}
	supervised(t, fake, app, func(t *testing.T, s *Supervisor) {
		fake.last().exit(1)
		delay(t, s)
		if _, err := s.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if st := s.Status(); st.State != Running || st.Attempt != 2 {
			t.Errorf("a minute later the state is %s in attempt %d, want Running in 2", st.State, st.Attempt)
		}
	})
}

func TestRestartsThatComeTogetherShareOneStart(t *testing.T) {
	fake := &fakeApp{stopping: time.Second}
	supervised(t, fake, app, func(t *testing.T, s *Supervisor) {
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				if started, err := s.Restart(t.Context()); err != nil || started.Attempt != 2 {
					t.Errorf("a restart answered attempt %d and %v, want 2", started.Attempt, err)
				}
			})
		}
		time.Sleep(time.Millisecond)
		if st := s.Status(); st.State != Stopping {
			t.Errorf("the state meanwhile is %s, want Stopping", st.State)
		}
		wg.Wait()
	})
}

func TestRestartWithoutACommandIsRefused(t *testing.T) {
	supervised(t, &fakeApp{}, nil, func(t *testing.T, s *Supervisor) {
		if _, err := s.Restart(t.Context()); !errors.Is(err, ErrNotConfigured) {
			t.Errorf("the error is %v, want ErrNotConfigured", err)
		}
		if st := s.Status(); st.State != NotConfigured {
			t.Errorf("the state is %s, want NotConfigured", st.State)
		}
	})
}

func TestAnAppThatCannotBeStartedIsReportedAndTriedAgain(t *testing.T) {
	fake := &fakeApp{err: unix.ENOENT}
	supervised(t, fake, app, func(t *testing.T, s *Supervisor) {
		var failure *StartError
		if _, err := s.Restart(t.Context()); !errors.As(err, &failure) || !errors.Is(err, unix.ENOENT) {
			t.Errorf("the error is %v, want a StartError of ENOENT", err)
		}
		st := s.Status()
		if st.State != Backoff || st.LastExit.Reason != StartFailed || st.LastExit.Message == "" {
			t.Errorf("the status is %+v with %+v, want Backoff after StartFailed", st, st.LastExit)
		}
		time.Sleep(delay(t, s))
		synctest.Wait()
		if !s.Status().Crashing(time.Now()) {
			t.Error("an app that could not be started twice is not crashing")
		}
		fake.mu.Lock()
		fake.err = nil
		fake.mu.Unlock()
		time.Sleep(backoffMost)
		synctest.Wait()
		if st := s.Status(); st.State != Running {
			t.Errorf("the state is %s, want Running", st.State)
		}
	})
}

func TestRestartEndsWithTheCallersContext(t *testing.T) {
	fake := &fakeApp{stopping: time.Minute}
	supervised(t, fake, app, func(t *testing.T, s *Supervisor) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.Restart(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the error is %v, want the deadline's", err)
		}
		time.Sleep(2 * time.Minute)
		if st := s.Status(); st.State != Running || st.Attempt != 2 {
			t.Errorf("the state is %s in attempt %d, want the restart to have gone on", st.State, st.Attempt)
		}
	})
}

func TestRestartAfterTheEndIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSupervisor(Options{Logger: slog.New(slog.DiscardHandler)}, nil)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		s.Run(ctx)
		if _, err := s.Restart(t.Context()); !errors.Is(err, ErrStopped) {
			t.Errorf("the error is %v, want ErrStopped", err)
		}
	})
}

// A reader that hears of an end has what was written before it.
func TestAnEndIsToldOnceAllOutputHasBeenRead(t *testing.T) {
	fake := &fakeApp{stopping: time.Second}
	supervised(t, fake, app, func(t *testing.T, s *Supervisor) {
		fake.last().exit(3)
		time.Sleep(fake.stopping / 2)
		if st := s.Status(); st.State != Stopping || st.LastExit != nil || st.QuickEnds != 0 {
			t.Errorf("while its output is being read the status is %+v", st)
		}
		time.Sleep(fake.stopping)
		if st := s.Status(); st.LastExit == nil || st.LastExit.Code != 3 || st.QuickEnds != 1 {
			t.Errorf("after that the status is %+v", st)
		}
	})
}

// What an app that does not stay up wrote last is logged, and nothing of one that has ended once: its
// output is its own.
func TestTheLastLinesOfACrashingAppAreLogged(t *testing.T) {
	var logged bytes.Buffer
	s := newSupervisor(Options{
		Logger:    slog.New(slog.NewJSONHandler(&logged, nil)),
		LastLines: func() []string { return []string{"no such module"} },
	}, nil)
	exit := describe(unix.WaitStatus(7<<8), 1, time.Now())
	for quickEnds := 1; quickEnds <= crashingAfter; quickEnds++ {
		logged.Reset()
		s.logEnd(exit, quickEnds)
		var line struct {
			Msg, Explained string
			LastLines      []string
		}
		if err := json.Unmarshal(logged.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		told := line.Explained == "the app exited with code 7" && len(line.LastLines) == 1
		if want := quickEnds == crashingAfter; line.Msg != "the app ended" || told != want {
			t.Errorf("after %d quick ends: %s", quickEnds, logged.String())
		}
	}
}
