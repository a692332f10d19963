// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package unit

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The first process of a unit is this very program, as it is in the stack.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "unit-init" {
		fmt.Fprintln(os.Stderr, Init(os.Args[2]))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// needsRoot skips a test that makes namespaces.
func needsRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("making namespaces needs root")
	}
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// eventually fails the test when done does not come to hold.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	if err := Poll(within(t, 10*time.Second), done); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func start(t *testing.T, processes ...Process) (*Running, Spec) {
	t.Helper()
	needsRoot(t)
	dir := t.TempDir()
	spec := Spec{Name: "test", Dir: dir, LogDir: filepath.Join(dir, "log"), Processes: processes}
	running, err := Start(spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Kill(running.PID, unix.SIGKILL) })
	return running, spec
}

func (s Spec) logged(t *testing.T, process string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(s.LogDir, process+".log"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(data)
}

func runs(t *testing.T, r *Running, process string) HostProcess {
	t.Helper()
	var found HostProcess
	eventually(t, process+" runs", func() bool {
		all, err := r.Processes()
		found = all[process]
		return err == nil && found.HostPID != 0
	})
	return found
}

func shell(script string) []string { return []string{"/bin/sh", "-c", script} }

func TestAKilledProcessComesBackAsAnother(t *testing.T) {
	running, _ := start(t, Process{Name: "sleeper", Args: []string{"/bin/sleep", "1000"}})
	before := runs(t, running, "sleeper")
	if err := running.Restart(within(t, 10*time.Second), "sleeper"); err != nil {
		t.Fatal(err)
	}
	after := runs(t, running, "sleeper")
	if after.HostPID == before.HostPID || after.Starts != 2 || after.LastExit != "killed by SIGKILL" {
		t.Errorf("before %+v, after %+v", before, after)
	}
	if err := running.Restart(t.Context(), "nobody"); err == nil {
		t.Error("a process that does not exist was restarted")
	}
}

func TestAProcessThatEndsIsStartedAgainAndItsExitIsRecorded(t *testing.T) {
	running, spec := start(t, Process{Name: "crasher", Args: shell("echo started; exit 7")})
	eventually(t, "two starts", func() bool { return strings.Count(spec.logged(t, "crasher"), "started") >= 2 })
	eventually(t, "the exit code", func() bool {
		all, err := running.Processes()
		return err == nil && all["crasher"].LastExit == "exit code 7"
	})
}

// A daemon leaves its parent and its session; it must not outlive the unit.
func TestStopEndsEverythingThatWasForked(t *testing.T) {
	running, spec := start(t, Process{Name: "daemon", Args: shell("setsid sh -c 'sleep 1000 & setsid sleep 1000 &' ; echo forked; sleep 1000")})
	eventually(t, "the forks", func() bool { return strings.Contains(spec.logged(t, "daemon"), "forked") })
	inside := func() int {
		namespace, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid_for_children", running.PID))
		if err != nil {
			return 0
		}
		n := 0
		matches, _ := filepath.Glob("/proc/[0-9]*/ns/pid")
		for _, m := range matches {
			if ns, err := os.Readlink(m); err == nil && ns == namespace {
				n++
			}
		}
		return n
	}
	if n := inside(); n < 3 {
		t.Fatalf("%d processes inside, want the unit's and those that were forked", n)
	}
	namespace, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid_for_children", running.PID))
	if err != nil {
		t.Fatal(err)
	}
	if err := running.Stop(within(t, 10*time.Second)); err != nil {
		t.Fatal(err)
	}
	matches, _ := filepath.Glob("/proc/[0-9]*/ns/pid")
	for _, m := range matches {
		if ns, err := os.Readlink(m); err == nil && ns == namespace {
			t.Errorf("%s outlived the unit", m)
		}
	}
	if found, err := Find(spec.Dir, spec.Name); err != nil || found != nil {
		t.Errorf("a stopped unit is found: %+v, %v", found, err)
	}
}

// Orphans become children of the unit's first process. If it did not collect
// them, each would stay as a zombie until the process table is full.
func TestOrphansAreCollected(t *testing.T) {
	running, spec := start(t, Process{Name: "parent", Args: shell("for i in 1 2 3 4 5; do setsid sh -c 'sh -c \"exit 0\" & exit 0'; done; echo done; sleep 1000")})
	eventually(t, "the orphans", func() bool { return strings.Contains(spec.logged(t, "parent"), "done") })
	eventually(t, "no zombies", func() bool {
		out, err := exec.Command("ps", "--ppid", strconv.Itoa(running.PID), "-o", "stat=").Output()
		return err == nil && !strings.Contains(string(out), "Z")
	})
}

func TestAProcessWaitsForWhatItNeeds(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	running, _ := start(t,
		Process{Name: "late", Args: []string{"/bin/sleep", "1000"}, After: []string{"tcp:" + address}},
		Process{Name: "soon", Args: []string{"/bin/sleep", "1000"}},
	)
	runs(t, running, "soon")
	if all, err := running.Processes(); err != nil || all["late"].Starts != 0 {
		t.Errorf("it did not wait: %+v, %v", all["late"], err)
	}
	if listener, err = net.Listen("tcp", address); err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	runs(t, running, "late")
}

func TestWaitForAURLThatAnswers(t *testing.T) {
	ready := make(chan struct{})
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		select {
		case <-ready:
		default:
			w.WriteHeader(http.StatusServiceUnavailable)
			close(ready)
		}
	}))
	defer server.Close()
	waitFor(t.Context(), server.URL)
	select {
	case <-ready:
	default:
		t.Error("it did not ask")
	}
}

func TestAUnitHasNothingOfThePersonsEnvironment(t *testing.T) {
	t.Setenv("SECRET_OF_A_PERSON", "x")
	_, spec := start(t, Process{Name: "env", Args: []string{"/usr/bin/env"}, Env: []string{"OWN=y"}})
	eventually(t, "the environment", func() bool { return strings.Contains(spec.logged(t, "env"), "OWN=y") })
	if strings.Contains(spec.logged(t, "env"), "SECRET_OF_A_PERSON") {
		t.Error("a person's variable reached the unit")
	}
}

// A unit that went on without its link would run, and fail in ways that nobody
// would connect with the network.
// A unit has a /proc of its own, which does not show the processes of others.
func TestAUnitReachesANamespaceOfAnothersProcess(t *testing.T) {
	needsRoot(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "net")
	spec := Spec{
		Name: "test", Dir: dir, LogDir: filepath.Join(dir, "log"),
		Namespaces: map[string]string{file: fmt.Sprintf("/proc/%d/ns/net", os.Getpid())},
		Processes:  []Process{{Name: "stat", Args: shell("stat -L -c %i " + file + "; sleep 100000")}},
	}
	running, err := Start(spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Kill(running.PID, unix.SIGKILL) })
	var own unix.Stat_t
	if err := unix.Stat("/proc/self/ns/net", &own); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the namespace is this process's", func() bool {
		return strings.TrimSpace(spec.logged(t, "stat")) == strconv.FormatUint(own.Ino, 10)
	})
	var outside unix.Stat_t
	if err := unix.Stat(file, &outside); err != nil || outside.Ino == own.Ino {
		t.Errorf("the mount is on the host too: %v", err)
	}
}

func TestAUnitThatCannotBeConnectedIsEnded(t *testing.T) {
	needsRoot(t)
	dir := t.TempDir()
	spec := Spec{Name: "test", Dir: dir, LogDir: dir, Processes: []Process{{Name: "p", Args: []string{"/bin/sleep", "1000"}}}}
	var pid int
	_, err := Start(spec, func(p int) error { pid = p; return errors.New("no link") })
	if err == nil || pid == 0 {
		t.Fatalf("pid %d, %v", pid, err)
	}
	eventually(t, "the end", func() bool { return unix.Kill(pid, 0) != nil })
}

func TestFindIsNotFooledByAReusedProcessID(t *testing.T) {
	dir := t.TempDir()
	ticks, _, err := stat(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		id    identity
		found bool
	}{
		"the recorded process itself":    {identity{os.Getpid(), ticks}, true},
		"a later one of the same number": {identity{os.Getpid(), ticks - 1}, false},
		"a number that nobody has":       {identity{1 << 30, ticks}, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if err := writeJSON(pidFile(dir, "x"), tt.id); err != nil {
				t.Fatal(err)
			}
			running, err := Find(dir, "x")
			if err != nil || (running != nil) != tt.found {
				t.Errorf("found %+v, %v, want found=%t", running, err, tt.found)
			}
		})
	}
	if running, err := Find(dir, "never-started"); err != nil || running != nil {
		t.Errorf("found %+v, %v", running, err)
	}
}

func TestASpecIsTheSameOnlyUnchanged(t *testing.T) {
	spec := Spec{
		Name: "x", Dir: t.TempDir(), Config: "1",
		Machine:   &Machine{Hostname: "h", Binds: map[string]string{"/a": "/b", "/c": "/d"}},
		Processes: []Process{{Name: "p", Args: []string{"/p"}}},
	}
	if spec.Same() {
		t.Error("a unit that never ran is the same")
	}
	if err := writeJSON(spec.specFile(), spec); err != nil {
		t.Fatal(err)
	}
	if !spec.Same() {
		t.Error("the same spec is another")
	}
	spec.Config = "2"
	if spec.Same() {
		t.Error("a changed spec is the same")
	}
}

func TestStatOfAZombieIsNotAlive(t *testing.T) {
	cmd := exec.Command("/bin/true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the zombie", func() bool {
		_, alive, err := stat(cmd.Process.Pid)
		return err == nil && !alive
	})
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
}

// The provider is no unit; it is recorded in the same form so that status shows it
// and down ends it.
func TestWhatOthersHaveRecordedIsOneProcess(t *testing.T) {
	dir := t.TempDir()
	ticks, _, err := stat(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if err := writeJSON(pidFile(dir, "provider"), identity{os.Getpid(), ticks}); err != nil {
		t.Fatal(err)
	}
	names, err := Recorded(dir)
	if err != nil || len(names) != 1 || names[0] != "provider" {
		t.Fatalf("recorded %q, %v", names, err)
	}
	running, err := Find(dir, "provider")
	if err != nil || running == nil {
		t.Fatalf("found %+v, %v", running, err)
	}
	all, err := running.Processes()
	if p := all["provider"]; err != nil || p.HostPID != os.Getpid() || p.MemoryBytes == 0 {
		t.Errorf("processes %+v, %v", all, err)
	}
}
