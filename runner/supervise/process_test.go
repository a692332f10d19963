// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervise

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// output collects what the app writes.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{}
}

func (o *output) drain(pipe *os.File, _ int, _ uint32) {
	buf := make([]byte, 32<<10)
	for {
		n, err := pipe.Read(buf)
		o.mu.Lock()
		o.text.Write(buf[:n])
		o.mu.Unlock()
		select {
		case o.more <- struct{}{}:
		default:
		}
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, fs.ErrClosed) {
				panic(err)
			}
			return
		}
	}
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// await returns the words of the output once there are n.
func (o *output) await(t *testing.T, n int) []string {
	t.Helper()
	late := time.After(20 * time.Second)
	for {
		if words := strings.Fields(o.String()); len(words) >= n {
			return words
		}
		select {
		case <-o.more:
		case <-late:
			t.Fatalf("the output is %q, want %d words", o, n)
		}
	}
}

// realApp runs a shell script as the app until the test ends.
func realApp(t *testing.T, script string, grace time.Duration) (*Supervisor, *output) {
	t.Helper()
	o := &output{more: make(chan struct{}, 1)}
	return realAppWith(t, script, grace, func(*Reaper) func(*os.File, int, uint32) { return o.drain }), o
}

// realAppWith is realApp with another way to read what the app writes.
func realAppWith(
	t *testing.T, script string, grace time.Duration, drain func(*Reaper) func(*os.File, int, uint32),
) *Supervisor {
	t.Helper()
	reaper, err := NewReaper()
	if err != nil {
		t.Fatal(err)
	}
	s := New(reaper, Options{
		Args: []string{"/bin/sh", "-c", script}, Dir: t.TempDir(), Env: os.Environ,
		Grace: grace, Drain: drain(reaper), Logger: slog.New(slog.DiscardHandler),
	})
	ctx, cancel := context.WithCancel(context.Background())
	go s.Run(ctx)
	t.Cleanup(func() {
		cancel()
		<-s.done
		reaper.Close()
		if left, err := descendants(os.Getpid(), func() map[int]bool { return nil }); err != nil || len(left) > 0 {
			t.Errorf("processes %v are left (%v)", left, err)
		}
	})
	return s
}

func alive(pid int) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return false
	}
	p, err := parseStat(stat)
	return err == nil && !p.gone()
}

// The app forks a child, a grandchild in a session of its own, and a grandchild
// whose parent is gone; each prints its PID.
const familyScript = `
echo $$
sleep 1000 & echo $!
setsid sh -c 'echo $$; exec sleep 1000' &
(setsid sh -c 'trap "" TERM; echo $$; sleep 1000 & echo $!; wait; sleep 1000' &)
wait`

// esbuild --watch, tailwindcss --watch and react-scripts start end when their input does.
func TestAProgramThatEndsWithItsInputStaysUp(t *testing.T) {
	_, out := realApp(t, "timeout 0.5 cat; echo code $?; exec sleep 1000", time.Second)
	if got := out.await(t, 2); got[1] != "124" { // that of timeout for a program that did not end
		t.Errorf("a program that reads its input ended with %s", got[1])
	}
}

func TestARestartKeepsNoInputOpen(t *testing.T) {
	s, out := realApp(t, "echo up; exec sleep 1000", time.Second)
	out.await(t, 1)
	before := openFiles(t)
	for i := range 3 {
		if _, err := s.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		out.await(t, i+2)
	}
	if after := openFiles(t); after > before {
		t.Errorf("%d files are open after three restarts, %d before", after, before)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}

func TestNoProcessIsLeftAfterARestart(t *testing.T) {
	s, out := realApp(t, familyScript, 200*time.Millisecond)
	family := out.await(t, 5)
	started, err := s.Restart(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range family[:5] {
		pid, err := strconv.Atoi(word)
		if err != nil {
			t.Fatal(err)
		}
		if alive(pid) {
			t.Errorf("process %d of the old attempt is alive", pid)
		}
	}
	if !alive(started.PID) {
		t.Errorf("the new process %d is not alive", started.PID)
	}
}

func TestNoProcessIsLeftAfterACrash(t *testing.T) {
	// Without rm the second attempt would end at once, perhaps before its stray process has said who it is.
	s, out := realApp(t, `setsid sh -c 'echo $$; exec sleep 1000' & while [ ! -e go ]; do sleep 0.01; done; rm go; exit 7`, time.Second)
	stray, err := strconv.Atoi(out.await(t, 1)[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.options.Dir, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	out.await(t, 2) // the next attempt has begun
	if alive(stray) {
		t.Errorf("process %d of the crashed attempt is alive", stray)
	}
	if exit := s.Status().LastExit; exit == nil || exit.Code != 7 || exit.Reason != Failed {
		t.Errorf("the last exit is %+v, want code 7", exit)
	}
}

func TestAnAppThatIgnoresTERMIsKilledAfterItsGrace(t *testing.T) {
	s, out := realApp(t, `trap '' TERM; echo ready; while :; do sleep 1000; done`, 100*time.Millisecond)
	out.await(t, 1)
	if _, err := s.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if exit := s.Status().LastExit; exit.Signal != "SIGKILL" || exit.Reason != StoppedByRunner {
		t.Errorf("the last exit is %+v, want a stop by KILL", exit)
	}
}

func TestAnAppMayEndInItsOwnWayAndEveryByteOfItIsRead(t *testing.T) {
	s, out := realApp(t, `
trap 'head -c 300000 /dev/zero | tr "\0" x; echo; echo bye; exit 5' TERM
echo ready; while :; do sleep 0.01; done`, 20*time.Second)
	out.await(t, 1)
	if _, err := s.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if exit := s.Status().LastExit; exit.Code != 5 || exit.Reason != StoppedByRunner {
		t.Errorf("the last exit is %+v, want code 5", exit)
	}
	if text := out.String(); strings.Count(text, "x") != 300000 || !strings.Contains(text, "x\nbye\n") {
		t.Errorf("%d of 300000 bytes were read", strings.Count(text, "x"))
	}
}

// What the app wrote at its end may lie in the pipe when it is gone already.
func TestOutputThatIsReadOnlyAfterTheEndIsNotLost(t *testing.T) {
	out := &output{more: make(chan struct{}, 1)}
	ready := make(chan struct{})
	s := realAppWith(t, `trap 'echo last words; exit' TERM; echo ready >&2; while :; do sleep 0.01; done`, 20*time.Second,
		func(reaper *Reaper) func(*os.File, int, uint32) {
			reaped, _ := reaper.watch()
			return func(pipe *os.File, fd int, attempt uint32) {
				switch {
				case attempt > 1 || fd == 2:
					if _, err := pipe.Read(make([]byte, 1)); err == nil && attempt == 1 {
						close(ready)
					}
					_, _ = io.Copy(io.Discard, pipe)
				default:
					<-reaped // the app is the only child that is this process's own
					out.drain(pipe, fd, attempt)
				}
			}
		})
	<-ready
	if _, err := s.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); got != "last words\n" {
		t.Errorf("%q was read, want the last words", got)
	}
}

func TestAStartInADirectoryThatIsGoneFails(t *testing.T) {
	s, out := realApp(t, `echo ready; exec sleep 1000`, time.Second)
	out.await(t, 1)
	if err := os.RemoveAll(s.options.Dir); err != nil {
		t.Fatal(err)
	}
	var failure *StartError
	if _, err := s.Restart(t.Context()); !errors.As(err, &failure) || !errors.Is(err, unix.ENOENT) {
		t.Errorf("the error is %v, want a StartError of ENOENT", err)
	}
}

func TestRestartsUnderLoadLoseNoExit(t *testing.T) {
	// Children that end at once, and are nobody's, compete with the app's status.
	s, out := realApp(t, `for i in 1 2 3 4 5 6 7 8 9; do (setsid true &) ; done; echo ready; exec sleep 1000`, 5*time.Second)
	for attempt := range uint32(20) {
		out.await(t, int(attempt)+1)
		started, err := s.Restart(t.Context())
		if err != nil || started.Attempt != attempt+2 {
			t.Fatalf("a restart answered attempt %d and %v, want %d", started.Attempt, err, attempt+2)
		}
		if exit := s.Status().LastExit; exit.Signal != "SIGTERM" {
			t.Fatalf("the last exit is %+v, want one by TERM", exit)
		}
	}
}

// A command that is started while the app is stopped is no process of the app's. It was taken for one when
// it appeared between the look at the commands and that at the process table.
func TestARestartLeavesCommandsAloneThatAreJustStarted(t *testing.T) {
	var reaper *Reaper
	o := &output{more: make(chan struct{}, 1)}
	s := realAppWith(t, `echo up; exec sleep 1000`, 5*time.Second, func(r *Reaper) func(*os.File, int, uint32) {
		reaper = r
		return o.drain
	})
	o.await(t, 1)
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	ctx, cancel := context.WithCancel(t.Context())
	var commands sync.WaitGroup
	for range 4 {
		commands.Go(func() {
			for ctx.Err() == nil {
				command, err := reaper.Start([]string{"/bin/sh", "-c", "true"}, os.Environ(), "/", [3]*os.File{null, null, null}, false)
				if err != nil {
					t.Error(err)
					return
				}
				if status := <-command.Exited(); !status.Exited() || status.ExitStatus() != 0 {
					t.Errorf("a command ended with %v", status)
					return
				}
			}
		})
	}
	for range 60 {
		if _, err := s.Restart(t.Context()); err != nil {
			t.Error(err)
		}
	}
	cancel()
	commands.Wait()
}
