// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// TestDevelopFromATerminal is the promise of the command line: a person with a kubeconfig and a
// directory has a sandbox that runs what is in the directory, sees its log, and runs commands.
func TestDevelopFromATerminal(t *testing.T) {
	calm(t)
	tn := newTenant(t, "alice")
	s := newTerminal(t, tn)
	s.must("trust", world.URL, "--ca-file", world.CAFile)
	s.write("loop.sh", "while :; do cat greeting; sleep 1; done\n")
	s.write("greeting", "first\n")
	s.write(".gitignore", "*.tmp\n")
	s.write("not.tmp", "no")

	out, notes, stop := s.begin("dev", "web", s.dir, "--create", "--start-command", "sh loop.sh")
	await(t, notes, "in sync")
	await(t, out, "first\n")
	saved := time.Now()
	s.write("greeting", "second\n")
	await(t, out, "second\n")
	t.Logf("saved to printed by the app, which looks once a second: %v", time.Since(saved).Round(time.Millisecond))
	if code := stop(); code != 130 {
		t.Errorf("dev ended with %d: %s", code, notes)
	}

	if got := s.must("exec", "web", "--", "sh", "-c", "ls; exit 0"); got != "greeting\nloop.sh\n" {
		t.Errorf("the sandbox has %q", got)
	}
	if code, _, _ := s.run("exec", "web", "--", "sh", "-c", "exit 7"); code != 7 {
		t.Errorf("a command that exits with 7 makes sandbar exit with %d", code)
	}
	if got, notes, err := s.piped("abc", "exec", "web", "-it", "--", "cat"); err != nil || got != "abc" || !strings.Contains(notes, "-t does not count") {
		t.Errorf("piped input, with -t: got %q (%v), and it says %q", got, err, notes)
	}
	s.must("exec", "web", "--", "sh", "-c", "echo made > lock && echo there > greeting")
	s.write("greeting", "here\n")
	if code, out, _ := s.run("sync", "web", s.dir, "--two-way"); code != 1 || !strings.HasPrefix(out, "conflict\tgreeting\t") {
		t.Errorf("a conflict: exit code %d, %q", code, out)
	}
	if made, _ := os.ReadFile(filepath.Join(s.dir, "lock")); string(made) != "made\n" {
		t.Errorf("what the sandbox made came back as %q", made)
	}
	s.must("sync", "web", s.dir, "--prefer", "local")
	if got := s.must("cp", "web:greeting", "-"); got != "here\n" {
		t.Errorf("after the local side was preferred the sandbox has %q", got)
	}
	s.must("env", "web", "GREETING=hello")
	if got := s.must("exec", "web", "--", "sh", "-c", "echo $GREETING"); got != "hello\n" {
		t.Errorf("a command has GREETING %q", got)
	}
	if got := s.must("logs", "web", "--tail", "1"); got == "" {
		t.Error("the log is empty")
	}

	_, notes, stop = s.begin("dev", "web", s.dir, "--two-way", "--no-logs")
	await(t, notes, "in sync")
	made := time.Now()
	s.must("exec", "web", "--", "sh", "-c", "mkdir -p gen && echo generated > gen/code")
	eventually(t, "what the sandbox made is here", func() error {
		_, err := os.Stat(filepath.Join(s.dir, "gen", "code"))
		return err
	})
	t.Logf("from the beginning of a command in the sandbox to its file here: %v (seen by polling every 100 ms)", time.Since(made).Round(time.Millisecond))
	if strings.Contains(notes.String(), "asked every") {
		t.Errorf("the sandbox is polled: %s", notes)
	}
	if code := stop(); code != 130 {
		t.Errorf("dev ended with %d: %s", code, notes)
	}
}

// TestSyncMoreThanARequestCarries: what a data plane does not take in one request goes in several,
// whether many files are too much for one or a single file is.
func TestSyncMoreThanARequestCarries(t *testing.T) {
	long(t, "it hashes and sends 250 MB")
	calm(t)
	tn := newTenant(t, "alice")
	box := tn.create(runners, "SandboxRunner", "large", map[string]any{"projectRef": "e2e", "startCommand": "exec sleep 3600"})
	box.waitReady()
	s := newTerminal(t, tn)
	s.must("trust", world.URL, "--ca-file", world.CAFile)
	random := rand.NewChaCha8([32]byte{})
	for name, size := range map[string]int{"a": 30 << 20, "b": 30 << 20, "c": 30 << 20, "whole": 60 << 20, "parts": 100 << 20} {
		content := make([]byte, size)
		_, _ = random.Read(content)
		s.write(name, string(content))
	}
	if out := s.must("sync", "large", s.dir); out != "" {
		t.Errorf("left out: %s", out)
	}
	want, err := exec.CommandContext(t.Context(), "sh", "-c", "cd "+s.dir+" && sha256sum a b c whole parts").Output()
	if err != nil {
		t.Fatal(err)
	}
	if got := s.must("exec", "large", "--", "sha256sum", "a", "b", "c", "whole", "parts"); got != string(want) {
		t.Errorf("the sandbox has\n%s, want\n%s", got, want)
	}
	box.delete()
}

// terminal runs the real program as a tenant.
type terminal struct {
	t            *testing.T
	program, dir string
	env          []string
}

// sandbarProgram is the command line, which all terminals share: to link it takes seconds.
var sandbarProgram = sync.OnceValues(func() (string, error) {
	program := filepath.Join(world.Dir, "sandbar")
	// As the provider is built, whose packages are compiled by then.
	build := exec.Command("go", "build", "-trimpath", "-o", program, "../cmd/sandbar")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building sandbar: %w\n%s", err, text)
	}
	return program, nil
})

func newTerminal(t *testing.T, tn *tenant) *terminal {
	t.Helper()
	program, err := sandbarProgram()
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	s := &terminal{t: t, program: program, dir: filepath.Join(home, "project")}
	if err := os.Mkdir(s.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	config := world.Stack.KCPUser(tn.user, tn.path)
	file := clientcmdapi.NewConfig()
	file.Clusters["w"] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthority: config.CAFile, CertificateAuthorityData: config.CAData}
	file.AuthInfos["w"] = &clientcmdapi.AuthInfo{Token: tn.token}
	file.Contexts["w"] = &clientcmdapi.Context{Cluster: "w", AuthInfo: "w"}
	file.CurrentContext = "w"
	kubeconfig := filepath.Join(home, "kubeconfig")
	if err := clientcmd.WriteToFile(*file, kubeconfig); err != nil {
		t.Fatal(err)
	}
	s.env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "HOME="+home, "XDG_CONFIG_HOME="+home, "XDG_CACHE_HOME="+home)
	return s
}

func (s *terminal) write(name, content string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(content), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// writeAt is write in a directory of the project.
func (s *terminal) writeAt(dir, name, content string) {
	s.t.Helper()
	if err := os.MkdirAll(filepath.Join(s.dir, dir), 0o755); err != nil {
		s.t.Fatal(err)
	}
	s.write(filepath.Join(dir, name), content)
}

func (s *terminal) run(args ...string) (code int, stdout, stderr string) {
	s.t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(s.t.Context(), s.program, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = s.env, &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		s.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// piped runs the program with an input that is not a terminal.
func (s *terminal) piped(input string, args ...string) (stdout, stderr string, err error) {
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(s.t.Context(), s.program, args...)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = s.env, strings.NewReader(input), &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

func (s *terminal) must(args ...string) string {
	s.t.Helper()
	code, out, errs := s.run(args...)
	if code != 0 {
		s.t.Fatalf("sandbar %s: exit code %d: %s", strings.Join(args, " "), code, errs)
	}
	return out
}

// screen is what a program that runs has written.
type screen struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// begin starts a command; stop interrupts it and returns its exit code.
func (s *terminal) begin(args ...string) (out, notes *screen, stop func() int) {
	s.t.Helper()
	out, notes = &screen{}, &screen{}
	cmd := exec.CommandContext(s.t.Context(), s.program, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = s.env, out, notes
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	return out, notes, func() int {
		_ = cmd.Process.Signal(syscall.SIGINT)
		_ = cmd.Wait() // the exit code says it
		return cmd.ProcessState.ExitCode()
	}
}

func await(t *testing.T, s *screen, text string) {
	t.Helper()
	awaitAfter(t, s, 0, text)
}

// awaitAfter waits until a program has written a text after its first bytes: for as long as a compiler may
// take beside other load, which builds the standard library first.
func awaitAfter(t *testing.T, s *screen, first int, text string) {
	t.Helper()
	eventually(t, fmt.Sprintf("%q", text), func() error {
		if got := s.String()[max(first, 0):]; !strings.Contains(got, text) {
			return fmt.Errorf("there is %q", got)
		}
		return nil
	})
}
