// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package podexec

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// shells are those of this machine that images have as sh.
func shells(t *testing.T) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	for name, command := range map[string][]string{"dash": {"dash"}, "bash": {"bash", "--posix"}, "busybox": {"busybox", "sh"}} {
		if path, err := exec.LookPath(command[0]); err == nil {
			found[name] = append([]string{path}, command[1:]...)
		}
	}
	if len(found) == 0 {
		t.Fatal("this machine has no shell: install dash")
	}
	return found
}

const path = "PATH=/usr/local/bin:/usr/bin:/bin"

// inShell runs what Started or ended returns, with a shell in place of sh.
func inShell(shell, command, env []string) *exec.Cmd {
	args := slices.Concat(shell[1:], command[1:])
	cmd := exec.Command(shell[0], args...)
	cmd.Env, cmd.SysProcAttr = env, &syscall.SysProcAttr{Setsid: true}
	return cmd
}

func command(t *testing.T, arguments ...string) Command {
	t.Helper()
	c, ok := New(arguments, true, true, false)
	if !ok {
		t.Fatal("a command with two outputs cannot be named")
	}
	return c
}

// A command sees nothing of the script: its arguments, environment, directory, input, outputs and exit code are
// those that it has without.
func TestACommandIsTheSameWithTheScript(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "own script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho \"$0|$*\"; exit 3\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	plain := []string{path, "HOSTNAME=pod", "EMPTY=", "LINES=a\nb c", "LC_ALL=xx_XX", "ENV=/nosuch", "SHELLOPTS=xtrace"}
	for shell, program := range shells(t) {
		for name, c := range map[string]struct {
			arguments []string
			env       []string
			never     bool
		}{
			"environment":                           {[]string{"cat", "/proc/self/environ"}, plain[:5], false},
			"arguments":                             {[]string{"cat", "/proc/self/cmdline", "/dev/null"}, plain[:2], false},
			"what a shell would expand":             {[]string{"printf", "<%s>", "", "*", "a  b", "$HOME", "`x`", "\\n", "ü", "\xff", "'"}, plain[:2], false},
			"a program by its path":                 {[]string{script, "a", "b c"}, plain[:2], false},
			"an exit code":                          {[]string{"sh", "-c", "exit 42"}, plain[:2], false},
			"a signal":                              {[]string{"sh", "-c", "kill -USR1 $$"}, plain[:2], false},
			"an ignored signal":                     {[]string{"grep", "Sig[ICB]", "/proc/self/status"}, plain[:2], false},
			"both outputs":                          {[]string{"sh", "-c", "echo out; echo err >&2"}, plain[:2], false},
			"a directory":                           {[]string{"pwd"}, plain[:2], false},
			"input":                                 {[]string{"cat"}, plain[:2], false},
			"open files":                            {[]string{"ls", "/proc/self/fd"}, plain[:2], false},
			"a name that a shell cannot have":       {[]string{"cat", "/proc/self/environ"}, append(plain[:2:2], "a.b=c"), shell != "bash"},
			"PWD of the container's own":            {[]string{"cat", "/proc/self/environ"}, append(plain[:2:2], "PWD=/x"), true},
			"SHLVL of the container's own":          {[]string{"cat", "/proc/self/environ"}, append(plain[:2:2], "SHLVL=7"), true},
			"a variable that means much to a shell": {[]string{"sh", "-c", "echo hello"}, append(plain[:2:2], plain[5:]...), shell == "bash"},
			"names of the script's own":             {[]string{"cat", "/proc/self/environ"}, append(plain[:2:2], "name=1", "s=2", "d=3"), false},
		} {
			t.Run(shell+" "+name, func(t *testing.T) {
				if c.never {
					asked := command(t, c.arguments...)
					out, err := runIn(dir, inShell(program, asked.Started(false), c.env))
					if _, word, _, _ := asked.readWord(out[1]); word != saysNever || len(out[0]) > 0 {
						t.Fatalf("it says %q and prints %q (%v), want %q", word, out[0], err, saysNever)
					}
					return
				}
				for _, checked := range []bool{false, true} {
					isTheSame(t, dir, program, c.arguments, c.env, checked)
				}
			})
		}
	}
}

// isTheSame compares a command that a shell begins with the same one that nothing does.
func isTheSame(t *testing.T, dir string, shell, arguments, env []string, checked bool) {
	t.Helper()
	asked := command(t, arguments...)
	scripted, direct := inShell(shell, asked.Started(checked), env), exec.Command(arguments[0], arguments[1:]...)
	direct.Env, direct.SysProcAttr = env, scripted.SysProcAttr
	got, end := runIn(dir, scripted)
	want, wantEnd := runIn(dir, direct)
	_, word, rest, found := asked.readWord(got[1])
	p, ok := asked.readProcess(word)
	if !found || !ok || p.pid != uint64(scripted.Process.Pid) {
		t.Fatalf("it says %q, which is %v; it was %d", word, p, scripted.Process.Pid)
	}
	if sorted(string(got[0])) != sorted(string(want[0])) || string(rest) != string(want[1]) {
		t.Errorf("prints %q and %q, want %q and %q", got[0], rest, want[0], want[1])
	}
	if end != wantEnd {
		t.Errorf("ended with %v, want %v", end, wantEnd)
	}
}

// runIn runs a command in a directory, and returns both outputs and how it ended.
func runIn(dir string, cmd *exec.Cmd) (outputs [2][]byte, end any) {
	var stdout, stderr bytes.Buffer
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = dir, strings.NewReader("in\x00put"), &stdout, &stderr
	_ = cmd.Run() // of which the state tells
	return [2][]byte{stdout.Bytes(), stderr.Bytes()}, cmd.ProcessState.Sys()
}

// sorted orders what has NULs as an environment has, whose order means nothing.
func sorted(s string) string {
	if !strings.HasSuffix(s, "\x00") || !strings.Contains(s, "=") {
		return s
	}
	parts := strings.Split(s, "\x00")
	slices.Sort(parts)
	return strings.Join(parts, "\x00")
}

// Of what a shell runs and the container runtime does not, or the other way round, the runtime is the judge.
func TestTheRuntimeJudgesWhatTheScriptCannotStart(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"text": "echo no interpreter\n", "relative": "#!/bin/sh\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "data"), []byte("#!/bin/sh\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for shell, program := range shells(t) {
		for name, c := range map[string]struct{ program, path string }{
			"no such program":                {"nosuch", path},
			"no such file":                   {dir + "/nosuch", path},
			"a directory":                    {"/usr", path},
			"a file without the right":       {dir + "/data", path},
			"text without an interpreter":    {dir + "/text", path},
			"a builtin without a program":    {"alias", path},
			"a relative entry of PATH":       {"relative", "PATH=.:/usr/bin:/bin"},
			"an empty entry of PATH":         {"relative", "PATH=/usr/bin::/bin"},
			"an option of env":               {"-i", path},
			"a variable for env":             {"a=b", path},
			"a program in no entry of PATH":  {"cat", "PATH=/nosuch"},
			"a pattern":                      {"/bin/ca?", path},
			"a program with a pattern in it": {"ca?", path},
		} {
			t.Run(shell+" "+name, func(t *testing.T) {
				asked := command(t, c.program, "x")
				cmd := inShell(program, asked.Started(false), []string{c.path, "HOSTNAME=pod"})
				var stdout, stderr bytes.Buffer
				cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &stdout, &stderr
				_ = cmd.Run()
				if _, word, rest, _ := asked.readWord(stderr.Bytes()); word != saysOther || len(rest) > 0 || stdout.Len() > 0 {
					t.Errorf("it says %q and prints %q and %q", word, stdout.String(), rest)
				}
			})
		}
	}
}

// session starts a shell's script as the leader of a session, and returns it with the line that it prints.
func session(t *testing.T, script string) (*exec.Cmd, Process, string) {
	t.Helper()
	cmd := exec.Command("sh", "-c", script)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	t.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); <-ended })
	line := make([]byte, 64)
	n, err := out.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	start := field(t, cmd.Process.Pid, startField-1)
	go func() { _ = cmd.Wait(); close(ended) }()
	number, err := strconv.ParseUint(start, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return cmd, Process{pid: uint64(cmd.Process.Pid), start: number}, string(line[:n])
}

// field is one of /proc/PID/stat behind the name; empty without the process.
func field(t *testing.T, pid, n int) string {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	return strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))[n]
}

func hasGone(t *testing.T, pid int) bool {
	state := field(t, pid, 0)
	return state == "" || state == "Z"
}

func TestWhatIsLeftOfACommandsSessionIsEnded(t *testing.T) {
	for shell, program := range shells(t) {
		for name, c := range map[string]struct {
			script string
			tty    bool
			change func(*Process)
			want   string
			stays  bool
		}{
			"a program":                            {"echo; exec sleep 600", false, nil, Ended, false},
			"a program with a terminal":            {"echo; exec sleep 600", true, nil, Ended, false},
			"a shell and what it waits for":        {"echo; sleep 600; :", false, nil, Ended, false},
			"a shell and what it does not":         {"sleep 600 & echo; wait", true, nil, Ended, false},
			"a stopped one":                        {"sleep 600 & kill -STOP $!; echo; wait", false, nil, Ended, false},
			"one that does not want to end":        {"trap '' TERM; echo; sleep 600; :", false, nil, Killed, false},
			"one that does something upon HUP":     {"trap : HUP; echo; while :; do sleep 600; done", true, nil, Killed, false},
			"one with nohup":                       {"echo; exec nohup sleep 600", false, nil, Kept, true},
			"one with nohup and a terminal":        {"echo; exec nohup sleep 600 </dev/null", true, nil, Kept, true},
			"another one with the number":          {"echo; exec sleep 600", false, func(p *Process) { p.start++ }, Gone, true},
			"a number that nothing has":            {"echo; exec sleep 600", false, func(p *Process) { p.pid = 1<<22 + 1 }, Gone, true},
			"a name that looks like its own state": {`cp "$(command -v sleep)" "$D/a) S 1 1"; echo; exec "$D/a) S 1 1" 600`, false, nil, Ended, false},
		} {
			t.Run(shell+" "+name, func(t *testing.T) {
				t.Parallel()
				cmd, p, _ := session(t, "D="+t.TempDir()+"; "+c.script)
				p.tty = c.tty
				if c.change != nil {
					c.change(&p)
				}
				if strings.Contains(c.script, "nohup") { // which comes a moment after the line
					waitFor(t, func() bool { return strings.HasPrefix(cmdline(cmd.Process.Pid), "sleep") })
				}
				out, err := inShell(program, p.ended(), []string{path}).Output()
				if got := strings.TrimSpace(string(out)); got != c.want || err != nil {
					t.Errorf("it says %q (%v), want %q", got, err, c.want)
				}
				if !c.stays {
					waitFor(t, func() bool { return hasGone(t, cmd.Process.Pid) })
				} else if hasGone(t, cmd.Process.Pid) {
					t.Error("it has gone")
				}
			})
		}
	}
}

func cmdline(pid int) string {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return string(b)
}

func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it does not come")
		}
	}
}

// What has left the session, or ignores a hang-up, was meant to outlive it; its neighbour was not.
func TestWhatWasMeantToStayStays(t *testing.T) {
	_, p, line := session(t, `setsid sleep 600 & a=$!; nohup sleep 600 >/dev/null 2>&1 & b=$!; sleep 600 & echo $a $b $!; wait`)
	var pids [3]int
	if _, err := fmt.Sscan(line, &pids[0], &pids[1], &pids[2]); err != nil {
		t.Fatalf("it says %q: %v", line, err)
	}
	t.Cleanup(func() { _ = syscall.Kill(pids[0], syscall.SIGKILL) })
	for _, pid := range pids {
		waitFor(t, func() bool { return strings.HasPrefix(cmdline(pid), "sleep") })
	}
	out, err := inShell([]string{"/bin/sh"}, p.ended(), []string{path}).Output()
	if got := strings.TrimSpace(string(out)); got != Ended || err != nil {
		t.Errorf("it says %q (%v)", got, err)
	}
	for i, stays := range [3]bool{true, true, false} {
		if hasGone(t, pids[i]) == stays {
			t.Errorf("process %d has gone: %v", i, !stays)
		}
	}
}
