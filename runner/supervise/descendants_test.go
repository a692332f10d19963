// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervise

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestParseStat(t *testing.T) {
	for name, test := range map[string]struct {
		stat string
		want proc
		ok   bool
	}{
		"an ordinary process":           {"12 (sh) S 7 12 11 0 -1", proc{pid: 12, parent: 7, session: 11, state: 'S'}, true},
		"a name with spaces":            {"12 (a b c) R 7 12 9", proc{pid: 12, parent: 7, session: 9, state: 'R'}, true},
		"a name that forges the line":   {"12 (x) S 1 (y) Z 7 12 9", proc{pid: 12, parent: 7, session: 9, state: 'Z'}, true},
		"a name with a newline":         {"12 (a\n13 (b) S 1) S 7 12 9", proc{pid: 12, parent: 7, session: 9, state: 'S'}, true},
		"an empty name":                 {"12 () S 7 12 9", proc{pid: 12, parent: 7, session: 9, state: 'S'}, true},
		"the first process":             {"1 (init) S 0 1 9", proc{pid: 1, parent: 0, session: 9, state: 'S'}, true},
		"a killed one with a thread":    {"12 (node) Z 7 12 9 0 -1 0 0 0 0 0 0 0 0 0 20 0 4 0", proc{pid: 12, parent: 7, session: 9, state: 'Z', threads: 4}, true},
		"threads in letters":            {"12 (node) Z 7 12 9 0 -1 0 0 0 0 0 0 0 0 0 20 0 x 0", proc{}, false},
		"nothing":                       {"", proc{}, false},
		"no name":                       {"12 S 7", proc{}, false},
		"an end before its beginning":   {"12 )x( S 7", proc{}, false},
		"a line that is cut":            {"12 (sh) S", proc{}, false},
		"no session":                    {"12 (sh) S 7 12", proc{}, false},
		"a parent that is not a number": {"12 (sh) S x 1 1", proc{}, false},
		"a parent below zero":           {"12 (sh) S -1 2 2", proc{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseStat([]byte(test.stat))
			if got != test.want || (err == nil) != test.ok {
				t.Errorf("parseStat(%q) = %+v, %v; want %+v", test.stat, got, err, test.want)
			}
		})
	}
}

func TestParseStatReadsTheKernelsOwn(t *testing.T) {
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		t.Fatal(err)
	}
	got, err := parseStat(stat)
	if err != nil || got.pid != os.Getpid() || got.parent != os.Getppid() || got.gone() {
		t.Errorf("got %+v, %v", got, err)
	}
}

// withoutFirstThread has the test's program end its first thread and go on.
const withoutFirstThread = "SANDBAR_TEST_WITHOUT_FIRST_THREAD"

func init() { // it runs on the first thread
	if os.Getenv(withoutFirstThread) == "" {
		return
	}
	runtime.LockOSThread()
	go func() {
		time.Sleep(time.Minute) // as long as the test takes at most
		os.Exit(0)
	}()
	_, _, _ = unix.RawSyscall(unix.SYS_EXIT, 0, 0, 0)
}

// Its state is that of a zombie, and it has its ports and its memory.
func TestAProcessWithoutItsFirstThreadIsNotGone(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), withoutFirstThread+"=1")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	for state := byte(0); state != 'Z'; { // nothing tells of the end of a thread
		if t.Context().Err() != nil {
			t.Fatal("its first thread does not end")
		}
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			t.Fatal(err)
		}
		p, err := parseStat(stat)
		if err != nil {
			t.Fatal(err)
		}
		state = p.state
		time.Sleep(time.Millisecond)
	}
	found, err := descendants(os.Getpid(), func() map[int]bool { return nil })
	if err != nil || !slices.Contains(found, pid) {
		t.Errorf("%d is not among the live processes %v: %v", pid, found, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if alive(pid) {
		t.Error("it is taken for alive after its end")
	}
}

func FuzzParseStat(f *testing.F) {
	for _, seed := range []string{"12 (sh) S 7 12", "12 (x) S 1 (y) Z 7 12", "1 () X 0", "(", ")", "9 (\n) R 99999999999999999999"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, stat []byte) {
		p, err := parseStat(stat)
		if err == nil && (p.pid <= 0 || p.parent < 0) {
			t.Errorf("parseStat(%q) = %+v", stat, p)
		}
	})
}
