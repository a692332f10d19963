// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/sandbar-dev/sandbar/hack/stack/kcp"
	"github.com/sandbar-dev/sandbar/hack/stack/node"
	"github.com/sandbar-dev/sandbar/hack/stack/state"
)

// asStack as the first argument makes this program the stack command.
const asStack = "as-stack"

// The first process of a unit is this very program, as it is in the stack.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "unit-init" {
		os.Exit(Run(os.Args[1:]))
	}
	if len(os.Args) > 1 && os.Args[1] == asStack {
		os.Exit(Run(os.Args[2:]))
	}
	os.Exit(m.Run())
}

// e2eVariable asks for the tests that start real stacks.
const e2eVariable = "STACK_E2E"

// testStack is a stack that a test runs.
type testStack struct {
	*setup
	t *testing.T
}

func newTestStack(t *testing.T, root, name string) *testStack {
	t.Helper()
	s, _, err := parse("status", []string{"--state", root, "--name", name})
	if err != nil {
		t.Fatal(err)
	}
	ts := &testStack{s, t}
	t.Cleanup(func() { ts.run("down") })
	return ts
}

func (s *testStack) run(command string, args ...string) int {
	s.t.Helper()
	s.t.Logf("%s  %s: %s %s", time.Now().Format(time.TimeOnly), s.name, command, strings.Join(args, " "))
	return Run(s.arguments(command, args...))
}

func (s *testStack) arguments(command string, args ...string) []string {
	root := filepath.Dir(filepath.Dir(string(s.dir)))
	return append([]string{command, "--state", root, "--name", s.name}, args...)
}

// killUpAt starts "up" and kills it as soon as a file of the stack exists.
func (s *testStack) killUpAt(file string) {
	s.t.Helper()
	s.t.Logf("%s: up, killed when there is %s", s.name, filepath.Base(file))
	cmd := exec.Command("/proc/self/exe", append([]string{asStack}, s.arguments("up")...)...)
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	err := pollFor(time.Minute, func() bool {
		_, err := os.Stat(file)
		return err == nil
	})
	if err := errors.Join(err, cmd.Process.Kill()); err != nil {
		s.t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		s.t.Error("up had ended before it was killed")
	}
}

func (s *testStack) must(command string, args ...string) {
	s.t.Helper()
	if code := s.run(command, args...); code != exitOK {
		s.t.Fatalf("stack %s: %s ended with %d", s.name, command, code)
	}
}

func (s *testStack) now() *report {
	s.t.Helper()
	r, err := s.report()
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

// pid returns the process id of a unit's first process.
func (s *testStack) pid(unitName string) int {
	s.t.Helper()
	for _, u := range s.now().Units {
		if u.Name == unitName {
			return u.PID
		}
	}
	s.t.Fatalf("stack %s has no unit %s", s.name, unitName)
	return 0
}

func (s *testStack) kill(unitName string) {
	s.t.Helper()
	pid := s.pid(unitName)
	s.t.Logf("kill -9 %d (%s of %s)", pid, unitName, s.name)
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		s.t.Fatal(err)
	}
	if err := pollFor(10*time.Second, func() bool { return s.pid(unitName) == 0 }); err != nil {
		s.t.Fatal(err)
	}
}

// record writes down a process as hack/local does it for the provider.
func record(t *testing.T, path string, pid int) {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	const start = 19 // field 22 of proc_pid_stat(5), counted from the third
	text := fmt.Sprintf(`{"pid": %d, "startTicks": %s}`, pid, strings.Fields(rest)[start])
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func pollFor(d time.Duration, done func() bool) error {
	for deadline := time.Now().Add(d); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("not within %s", d)
		}
	}
	return nil
}

// kubectl asks a stack's runtime cluster.
func (s *testStack) kubectl(args ...string) string {
	s.t.Helper()
	out, err := node.Kubectl(s.t.Context(), filepath.Join(s.now().Bin, "kubectl"), s.dir.Kubeconfig("runtime-admin"), "", args...)
	if err != nil {
		s.t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

// reachable reports whether the host reaches the stack's DNS Service, which
// needs the link, the routes, kube-proxy and a pod.
func (s *testStack) reachable() bool {
	conn, err := net.DialTimeout("tcp", net.JoinHostPort(s.now().Network["dns"], "53"), 2*time.Second)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

// traces is what of the stacks below root, with those indexes, is on the machine.
func traces(t *testing.T, root string, slices []state.Network) []string {
	t.Helper()
	var found []string
	note := func(kind, text string, marks ...string) {
		for line := range strings.Lines(text) {
			for _, mark := range marks {
				if strings.Contains(line, mark) {
					found = append(found, kind+": "+strings.TrimSpace(line))
					break
				}
			}
		}
	}
	marks := []string{root}
	for _, s := range slices {
		marks = append(marks, s.HostLink, s.Pods.String(), s.Services.String(), s.Host.Masked().String())
		for _, dir := range []string{"/sys/fs/cgroup/" + s.Cgroup(), "/sys/fs/cgroup/*/" + s.Cgroup()} {
			matches, err := filepath.Glob(dir)
			if err != nil {
				t.Fatal(err)
			}
			note("cgroup", strings.Join(matches, "\n"), "/")
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	note("mount", string(mounts), root)
	note("link", output(t, "ip", "-o", "link"), marks...)
	note("route", output(t, "ip", "route", "show", "table", "all"), marks...)
	note("iptables", output(t, "iptables-save"), append(marks, "KUBE-")...)
	note("process", processes(t, root), "")
	if _, err := os.Lstat(filepath.Join(root, "sandbar")); err == nil {
		entries, err := os.ReadDir(filepath.Join(root, "sandbar"))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			found = append(found, "file: "+e.Name())
		}
	}
	return found
}

// processes lists those whose command line or folder lies below root.
func processes(t *testing.T, root string) string {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	var found strings.Builder
	for _, dir := range dirs {
		line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			continue
		}
		cwd, _ := os.Readlink(filepath.Join(dir, "cwd"))
		text := string(bytes.ReplaceAll(line, []byte{0}, []byte{' '}))
		if strings.Contains(text, root) || strings.HasPrefix(cwd, root) {
			fmt.Fprintln(&found, dir, text)
		}
	}
	return found.String()
}

func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).Output()
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return string(out)
}

// Two stacks live side by side; one is killed in every way and comes back with
// what it had; the other does not notice; in the end nothing is left of either.
func TestRootTwoStacksSideBySide(t *testing.T) {
	if os.Getenv(e2eVariable) == "" || os.Geteuid() != 0 {
		t.Skipf("starting real stacks needs root and %s=1 (make test-stack)", e2eVariable)
	}
	root := t.TempDir()
	a, b := newTestStack(t, root, "e2e-a"), newTestStack(t, root, "e2e-b")
	a.must("up")
	b.must("up")
	var slices []state.Network
	for _, s := range []*testStack{a, b} {
		decided, err := s.dir.Load()
		if err != nil {
			t.Fatal(err)
		}
		slices = append(slices, state.NetworkAt(decided.Index))
	}
	if traces(t, root, slices) == nil {
		t.Fatal("two running stacks show no trace: the search for leftovers is broken")
	}

	t.Run("up with everything running changes nothing", func(t *testing.T) {
		before := []int{a.pid(node.UnitName), a.pid(kcp.UnitName)}
		a.must("up")
		if diff := cmp.Diff(before, []int{a.pid(node.UnitName), a.pid(kcp.UnitName)}); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("the API server tells the version that it was built from", func(t *testing.T) {
		// Without the stamp it is v0.0.0-master, of which every check for a minimum is content.
		if got := a.kubectl("get", "--raw", "/version"); !strings.Contains(got, `"gitVersion": "v1.`) {
			t.Error(got)
		}
	})
	t.Run("nothing leads out of the node", func(t *testing.T) {
		running, err := a.runningNode()
		if err != nil {
			t.Fatal(err)
		}
		routes, err := node.Enter(t.Context(), running, "ip", "route").Output()
		if err != nil || strings.Contains(string(routes), "default") {
			t.Errorf("%v\n%s", err, routes)
		}
	})
	t.Run("a killed node comes back with what it had and the other stack does not notice", func(t *testing.T) {
		a.kubectl("create", "namespace", "kept")
		other := b.pid(node.UnitName)
		a.kill(node.UnitName)
		if code := a.run("status"); code != exitFailed {
			t.Errorf("status says %d of a stack without its node", code)
		}
		a.must("up")
		if a.kubectl("get", "namespace", "kept", "-o", "name") != "namespace/kept" || !a.reachable() {
			t.Error("it is not what it was")
		}
		if b.pid(node.UnitName) != other || !b.reachable() {
			t.Error("the other stack noticed")
		}
	})
	t.Run("a restarted kcp knows its users", func(t *testing.T) {
		before, err := os.ReadFile(a.dir.Kubeconfig("kcp-admin"))
		if err != nil {
			t.Fatal(err)
		}
		a.must("restart", "kcp")
		after, err := os.ReadFile(a.dir.Kubeconfig("kcp-admin"))
		if err != nil || !bytes.Equal(before, after) {
			t.Errorf("the kubeconfig has changed, %v", err)
		}
	})
	t.Run("a stack whose processes are all dead is taken down cleanly", func(t *testing.T) {
		a.kill(node.UnitName)
		a.kill(kcp.UnitName)
		a.must("down")
		if left := traces(t, filepath.Join(root, "sandbar", a.name), slices[:1]); left != nil {
			t.Errorf("left:\n%s", strings.Join(left, "\n"))
		}
	})
	t.Run("an up that was killed at any moment is completed by the next", func(t *testing.T) {
		a.killUpAt(a.dir.File())
		a.killUpAt(filepath.Join(a.dir.Units(), node.UnitName+".pid.json"))
		a.must("up")
		if !a.reachable() {
			t.Error("it is not reachable")
		}
		a.must("down")
	})
	t.Run("what others have recorded with the stack ends with it", func(t *testing.T) {
		other := exec.Command("/bin/sleep", "1000")
		if err := other.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- other.Wait() }()
		record(t, filepath.Join(b.dir.Units(), "guest.pid.json"), other.Process.Pid)
		if b.pid("guest") != other.Process.Pid {
			t.Error("status does not show it")
		}
		b.must("down")
		<-ended
	})
	if left := traces(t, root, slices); left != nil {
		t.Errorf("left:\n%s", strings.Join(left, "\n"))
	}
}
