// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	syncwire "github.com/sandbar-dev/sandbar/apis/wire/sync"
	"github.com/sandbar-dev/sandbar/runner"
)

const (
	token = "correct-horse-battery-staple"

	// maxBinaryBytes is what the whole image of the runner may weigh.
	maxBinaryBytes = 12 << 20

	// nobody is the user that the runner is tried as, when the test is root.
	nobody = 65534
)

// binary is the program as it is released.
var binary string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		// Not below /root, where nobody could run it.
		// The folder is opened to another user, and t.TempDir lies below one that is not.
		dir, err := os.MkdirTemp("/tmp", "sandbar-runner-test")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		if err := os.Chmod(dir, 0o755); err != nil {
			panic(err)
		}
		binary = filepath.Join(dir, "runner")
		build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w -X main.version=v1.2.3", "-o", binary, ".")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			panic(fmt.Sprintf("building: %v\n%s", err, out))
		}
		return m.Run()
	}())
}

// Each of these is linked into every sandbox. A new line needs a reason.
var allowedDependencies = []string{
	// WebSocket for GET /exec, the one library of all of Sandbar, with the SOCKS proxies of its dialer.
	"github.com/gorilla/websocket",
	// What clients, the provider and the runner say to each other; the standard library alone.
	"github.com/sandbar-dev/sandbar/apis/wire/copy",
	"github.com/sandbar-dev/sandbar/apis/wire/exec",
	"github.com/sandbar-dev/sandbar/apis/wire/log",
	"github.com/sandbar-dev/sandbar/apis/wire/sync",
	"github.com/sandbar-dev/sandbar/cmd/sandbar-runner",
	// What the data plane and the runner prove to each other; the standard library's HMAC.
	"github.com/sandbar-dev/sandbar/pkg/controlproof",
	// Its one job is what the reload rules need, and it has no dependencies.
	"github.com/sandbar-dev/sandbar/pkg/gitignore",
	// A hundred lines, so that trying network policies needs no image of its own.
	"github.com/sandbar-dev/sandbar/pkg/netcheck",
	// The rules of that library in one place, shared with the client.
	"github.com/sandbar-dev/sandbar/pkg/wsconn",
	"github.com/sandbar-dev/sandbar/runner",
	"github.com/sandbar-dev/sandbar/runner/copyup",
	"github.com/sandbar-dev/sandbar/runner/execs",
	"github.com/sandbar-dev/sandbar/runner/ringlog",
	"github.com/sandbar-dev/sandbar/runner/supervise",
	"github.com/sandbar-dev/sandbar/runner/workspace",
	"golang.org/x/net/internal/socks",
	"golang.org/x/net/proxy",
	"golang.org/x/sys/unix",
	// How much of the app's output its container's log gets; of the standard library alone.
	"golang.org/x/time/rate",
}

func TestDependenciesAreTheStandardLibraryAndLittleElse(t *testing.T) {
	list := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".")
	list.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(allowedDependencies, strings.Fields(string(out)), cmp.Transformer("set", func(list []string) map[string]bool {
		set := map[string]bool{}
		for _, s := range list {
			set[s] = true
		}
		return set
	})); diff != "" {
		t.Errorf("dependencies (-allowed +linked):\n%s", diff)
	}
}

func TestTheBinaryIsSmallAndStatic(t *testing.T) {
	info, err := os.Stat(binary)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > maxBinaryBytes {
		t.Errorf("the binary has %d bytes, want at most %d", info.Size(), maxBinaryBytes)
	}
	content, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(content, []byte("/lib64/ld-linux")) {
		t.Error("the binary asks for a dynamic linker")
	}
}

func TestInstallLeavesAWholeProgram(t *testing.T) {
	dir := t.TempDir()
	for range 2 { // again: an init container may run twice
		if out, err := exec.Command(binary, "install", dir).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	installed := filepath.Join(dir, runner.BinaryName)
	if out, err := exec.Command(installed, "version").Output(); err != nil || string(out) != "v1.2.3\n" {
		t.Errorf("the installed program answered %q, %v", out, err)
	}
	if info, err := os.Stat(installed); err != nil || info.Mode() != 0o755 {
		t.Errorf("its mode is %v, %v; want 0755", info.Mode(), err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("%d files are there, want one", len(entries))
	}
}

func TestWrongUsageIsRefused(t *testing.T) {
	for name, args := range map[string][]string{
		"an unknown word":             {"serve-all"},
		"install without a directory": {"install"},
		"install to nowhere":          {"install", "/does/not/exist"},
		"health check of nothing":     {"healthcheck"},
		"serving without a token":     {},
	} {
		t.Run(name, func(t *testing.T) {
			c := exec.Command(binary, args...)
			c.Env = []string{"SANDBAR_CONTROL_ADDR=127.0.0.1:1", "SANDBAR_WORKDIR=" + t.TempDir()}
			if out, err := c.CombinedOutput(); err == nil || len(out) == 0 {
				t.Errorf("it ended with %v and said %q, want a failure with a reason", err, out)
			}
		})
	}
}

// serving is a runner that serves.
type serving struct {
	command *exec.Cmd
	url     string
	stderr  *bytes.Buffer
}

// startRunner starts the binary, as nobody when the test is root.
func startRunner(t *testing.T, start string) *serving {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := listener.Addr().String()
	_ = listener.Close()
	// The folder is opened to another user, and t.TempDir lies below one that is not.
	dir, err := os.MkdirTemp("/tmp", "sandbar-runner-test") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s := &serving{command: exec.Command(binary), url: "http://" + addr, stderr: &bytes.Buffer{}}
	s.command.Env = []string{
		"PATH=" + os.Getenv("PATH"), "SANDBAR_CONTROL_TOKEN=" + token, "SANDBAR_CONTROL_ADDR=" + addr,
		"SANDBAR_WORKDIR=" + dir, "SANDBAR_START_COMMAND=" + start,
	}
	s.command.Dir, s.command.Stderr = "/", s.stderr
	if os.Getuid() == 0 {
		if err := os.Chown(dir, nobody, nobody); err != nil {
			t.Fatal(err)
		}
		s.command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	if err := s.command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if s.command.ProcessState == nil {
			// Not KILL: outside of a container the app would outlive its runner.
			_ = s.command.Process.Signal(syscall.SIGTERM)
			_ = s.command.Wait()
		}
	})
	health := func() bool {
		check := exec.Command(binary, "healthcheck")
		check.Env = s.command.Env
		return check.Run() == nil
	}
	for late := time.Now().Add(20 * time.Second); !health(); {
		if time.Now().After(late) {
			t.Fatalf("the runner does not answer: %s", s.stderr)
		}
	}
	return s
}

// logs returns the app's log once it contains want.
func (s *serving) logs(t *testing.T, want string) string {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, s.url+"/logs?follow", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set(runner.TokenHeader, token)
	client := http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var text []byte
	for buf := make([]byte, 4096); !strings.Contains(string(text), want); {
		n, err := response.Body.Read(buf)
		if text = append(text, buf[:n]...); err != nil && err != io.EOF {
			t.Fatalf("the log is %q, and then %v", text, err)
		}
	}
	return string(text)
}

// The app runs as the same user, and the environment that a process was started
// with stays readable in /proc whatever the process does to it.
func TestTheAppCannotReadTheTokenFromTheRunnersProcess(t *testing.T) {
	if os.Getuid() != 0 {
		t.Log("not root: the app is tried as this user")
	}
	s := startRunner(t, `cat /proc/$PPID/environ; cat /proc/$PPID/cmdline; env; echo "checked "; exec sleep 1000`)
	log := s.logs(t, "checked ")
	if strings.Contains(log, token) {
		t.Errorf("the app read the token:\n%s", log)
	}
	if !strings.Contains(log, "Permission denied") {
		t.Errorf("the app was not refused:\n%s", log)
	}
}

func TestTERMStopsTheAppWithAllThatCameFromItAndEndsWithSuccess(t *testing.T) {
	s := startRunner(t, `(setsid sh -c 'echo stray=$$; trap "" HUP; exec sleep 1000' &) ; trap 'exit' TERM; echo up; while :; do sleep 0.05; done`)
	log := s.logs(t, "up")
	if !strings.Contains(log, "stray=") {
		log = s.logs(t, "stray=")
	}
	_, after, _ := strings.Cut(log, "stray=")
	stray, _, _ := strings.Cut(after, "\n")
	if err := s.command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := s.command.Wait(); err != nil {
		t.Errorf("the runner ended with %v: %s", err, s.stderr)
	}
	if _, err := os.Stat(filepath.Join("/proc", stray)); err == nil {
		t.Errorf("process %s is left", stray)
	}
	if strings.Contains(s.stderr.String(), token) {
		t.Error("the runner's log contains the token")
	}
}

// call makes a request with the token and returns the body of a 200.
func (s *serving) call(t *testing.T, method, path, contentType string, body io.Reader) []byte {
	t.Helper()
	r, err := http.NewRequest(method, s.url+path, body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set(runner.TokenHeader, token)
	r.Header.Set("Content-Type", contentType)
	client := http.Client{Timeout: 2 * time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s %s answered %d %s, %v", method, path, response.StatusCode, text, err)
	}
	return text
}

// maxMemory is what the runner may hold at any time.
const maxMemory = 40 << 20

// Twenty files of 25 MB are synced, listed, cut into chunks and read back, and the
// app writes as much to its log.
func TestMemoryStaysSmallWhile500MegabytesArrive(t *testing.T) {
	const files, size = 20, 25 << 20
	s := startRunner(t, `echo up; while [ ! -e f19 ]; do sleep 0.02; done; head -c 100000000 /dev/zero | tr '\0' '\n'; echo logged; exec sleep 1000`)
	content := bytes.Repeat([]byte("0123456789abcdef"), size/16)
	sum := sha256.Sum256(content)
	read, write := io.Pipe()
	go func() {
		e := syncwire.NewEncoder(write, nil, "never")
		for i := range files {
			_ = e.Entry(syncwire.Frame{Op: syncwire.OpFile, Path: fmt.Sprintf("f%d", i), Size: size, Digest: hex.EncodeToString(sum[:])})
			for at := 0; at < size; at += 1 << 20 {
				_ = e.Data(content[at : at+1<<20])
			}
		}
		_ = write.CloseWithError(e.End())
	}()
	s.call(t, http.MethodPost, "/sync", syncwire.ContentType, read)
	if lines := bytes.Count(s.call(t, http.MethodGet, "/files", "", nil), []byte("\n")); lines != files+1 {
		t.Errorf("the listing has %d lines", lines)
	}
	s.call(t, http.MethodGet, "/files/f0?chunks", "", nil)
	s.logs(t, "logged")
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.command.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	var peak int64
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			_, _ = fmt.Sscan(value, &peak)
		}
	}
	t.Logf("at most %d KiB were resident", peak)
	if peak == 0 || peak<<10 > maxMemory {
		t.Errorf("%d KiB were resident, want at most %d", peak, maxMemory>>10)
	}
}

// A runner that is killed leaves the workspace, the environment and the log to the
// next one. The app ends by itself here; in a container it ends with the runner.
func TestAKilledRunnerLosesNothing(t *testing.T) {
	s := startRunner(t, `echo "hello $NAME"; exec sleep 2`)
	s.logs(t, "hello")
	s.call(t, http.MethodPost, "/sync", "application/json", strings.NewReader(`{"files":[{"path":"a","content":"kept"}]}`))
	s.call(t, http.MethodPost, "/env", "application/json", strings.NewReader(`{"set":{"NAME":"again"}}`))
	if err := s.command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = s.command.Wait()
	next := exec.Command(binary)
	next.Env, next.Dir, next.Stderr, next.SysProcAttr = s.command.Env, "/", s.stderr, s.command.SysProcAttr
	if err := next.Start(); err != nil {
		t.Fatal(err)
	}
	s.command = next
	wait := exec.Command(binary, "wait")
	wait.Env = next.Env
	if out, err := wait.CombinedOutput(); err != nil {
		t.Fatalf("the next runner does not answer: %s", out)
	}
	log := s.logs(t, "hello again")
	if !strings.HasPrefix(log, "hello \n[sandbar: the runner was started again") {
		t.Errorf("the log is %q", log)
	}
	if listing := s.call(t, http.MethodGet, "/files", "", nil); !bytes.Contains(listing, []byte(`"revision":1`)) || !bytes.Contains(listing, []byte(`"a"`)) {
		t.Errorf("the listing is %s", listing)
	}
}
