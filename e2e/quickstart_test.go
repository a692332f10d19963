// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// reader is what a person does at a command of docs/quickstart.md beside typing it.
type reader struct {
	// question is what the person waits for on the screen, and keys what they press then.
	question, keys string
	// code is the exit code, and shows a text that the screen has to have, for commands whose output the document
	// does not print.
	code  int
	shows string
	// then looks at what the command has done.
	then func(q *quickStart)
}

// readers are by the beginning of the command. All other commands have to exit with 0 and print what the document prints.
var readers = map[string]reader{
	"sandbar bind":                                   {question: "Grant this? [y/N] ", keys: "y\r"},
	"kubectl api-resources":                          {shows: "sandboxrunners"},
	"sandbar trust":                                  {question: "[y/N] ", keys: "y\r"},
	"sandbar templates":                              {shows: "SandboxRunner"},
	"sandbar whoami":                                 {shows: "alice"},
	"sandbar create sandboxrunner":                   {then: func(*quickStart) { created.Add(1) }},
	"sandbar logs web -f":                            {question: "listening on", keys: "\x03", code: 130},
	"sandbar logs web --tail 100":                    {shows: "listening on"},
	"sandbar open web":                               {then: (*quickStart).seesThePage},
	"sandbar exec web":                               {shows: "v2"},
	"kubectl create clusterrolebinding carol-enters": {then: (*quickStart).letsCarolIn},
	"sandbar edit sandboxrunner":                     {then: (*quickStart).hasEdited},
	"sandbar suspend web":                            {shows: "web is suspended"},
	"sandbar delete sandboxrunner":                   {then: (*quickStart).hasDeleted},
}

// TestQuickStart follows docs/quickstart.md word by word, in a terminal, as a person does who has a workspace and a
// kubeconfig: each command of the document is typed in its order, each manifest applied, each question answered, and what
// the document prints below a command is what the person sees.
func TestQuickStart(t *testing.T) {
	calm(t)
	tn := newWorkspace(t, "alice")
	q := newQuickStart(t, tn)
	// A workspace gets its namespace a moment after it is ready, or from its owner.
	eventually(t, "the namespace default", func() error {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
		if _, err := tn.kube.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
		return nil
	})
	text, err := os.ReadFile("../docs/quickstart.md")
	if err != nil {
		t.Fatal(err)
	}
	met := map[string]bool{}
	for _, block := range blocksOf(string(text)) {
		if block.language == "yaml" {
			q.applies(block.text)
			continue
		}
		for _, step := range stepsOf(block.text) {
			met[q.types(step)] = true
		}
		if t.Failed() {
			t.FailNow() // the next commands build on this one
		}
	}
	for prefix := range readers {
		if !met[prefix] {
			t.Errorf("the document has no command that begins with %q: remove it from readers", prefix)
		}
	}
}

// block is a fenced block of a document.
type block struct{ language, text string }

var fence = regexp.MustCompile("(?ms)^```([a-z]+)\n(.*?)^```$")

// blocksOf returns the blocks of a document that are to be typed or applied.
func blocksOf(document string) []block {
	var all []block
	for _, found := range fence.FindAllStringSubmatch(document, -1) {
		if found[1] == "console" || found[1] == "yaml" {
			all = append(all, block{found[1], found[2]})
		}
	}
	return all
}

// step is a command of a document, and the lines that the document prints below it.
type step struct {
	command string
	prints  []string
}

func stepsOf(console string) []step {
	var all []step
	for line := range strings.Lines(console) {
		line = strings.TrimSuffix(line, "\n")
		if command, ok := strings.CutPrefix(line, "$ "); ok {
			all = append(all, step{command: command})
		} else if n := len(all); n > 0 && strings.TrimSpace(line) != "" {
			all[n-1].prints = append(all[n-1].prints, line)
		}
	}
	return all
}

// quickStart is a person at a terminal, in a checkout.
type quickStart struct {
	*terminal
	tenant *tenant
	// opened is the file that has the address which their browser was started with.
	opened string
}

// newQuickStart puts the programs that the document needs on the person's PATH, with a browser and an editor.
func newQuickStart(t *testing.T, tn *tenant) *quickStart {
	t.Helper()
	q := &quickStart{terminal: newTerminal(t, tn), tenant: tn}
	home := filepath.Dir(q.dir)
	bin := filepath.Join(home, "bin")
	q.opened = filepath.Join(home, "opened")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, program := range map[string]string{
		"sandbar": q.program, "kubectl": filepath.Join(world.Stack.Tools(), "kubectl"), "sandbar-provider": filepath.Join(world.Dir, "sandbar-provider"),
	} {
		if err := os.Symlink(program, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, script := range map[string]string{
		// The browser that the test opens the address with is Chromium; xdg-open would start it on a desktop.
		"xdg-open": `printf %s "$1" >` + q.opened,
		"editor":   `sed -i 's/^spec:$/spec:\n  lifecycle: {sleepAfterUnused: 30m}/' "$1"`,
	} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	q.env = append(q.env, "PATH="+bin+":"+os.Getenv("PATH"), "EDITOR=editor", "KUBE_EDITOR=", "TERM=xterm")
	return q
}

// types types a command, and returns the key of readers that it begins with; empty if there is none.
func (q *quickStart) types(s step) string {
	q.t.Helper()
	key := ""
	for prefix := range readers {
		if strings.HasPrefix(s.command, prefix) && len(prefix) > len(key) {
			key = prefix
		}
	}
	r := readers[key]
	code, shown := q.atTerminal(s.command, r.question, r.keys)
	if code != r.code {
		q.t.Errorf("$ %s\n%s\nexit code %d, want %d", s.command, shown, code, r.code)
		return key
	}
	if want := append(slices.Clone(s.prints), r.shows); !printed(shown, want) {
		q.t.Errorf("$ %s\n%s\nthe document has %q", s.command, shown, want)
	}
	if r.then != nil {
		r.then(q)
	}
	return key
}

// atTerminal runs a command line in the person's shell, in a terminal of its own, and returns what the screen shows.
func (q *quickStart) atTerminal(command, question, keys string) (code int, shown string) {
	q.t.Helper()
	ctx, cancel := context.WithTimeout(q.t.Context(), patience())
	defer cancel()
	keyboard, theirs := openPseudoterminal(q.t)
	defer keyboard.Close()
	cmd := exec.CommandContext(ctx, "bash", "-c", command)
	cmd.Dir, cmd.Env = "..", q.env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs, theirs, theirs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		q.t.Fatal(err)
	}
	_ = theirs.Close() // the command has it
	var out screen
	read := make(chan struct{})
	go func() {
		defer close(read)
		for buffer := make([]byte, 4096); ; {
			n, err := keyboard.Read(buffer)
			_, _ = out.Write(buffer[:n])
			if err != nil {
				return // EIO, when the command has ended
			}
		}
	}()
	if question != "" {
		q.awaitQuestion(command, question, &out, read)
		if _, err := keyboard.WriteString(keys); err != nil {
			q.t.Fatal(err)
		}
	}
	err := cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		q.t.Fatal(err)
	}
	<-read
	return cmd.ProcessState.ExitCode(), strings.ReplaceAll(out.String(), "\r\n", "\n")
}

// awaitQuestion waits until a command asks, and ends the test if the command ends without.
func (q *quickStart) awaitQuestion(command, question string, out *screen, read <-chan struct{}) {
	q.t.Helper()
	eventually(q.t, fmt.Sprintf("%q", question), func() error {
		ended := false
		select {
		case <-read:
			ended = true
		default:
		}
		shown := out.String()
		switch {
		case strings.Contains(shown, question):
			return nil
		case ended:
			q.t.Fatalf("$ %s\nended without %q: %s", command, question, shown)
		}
		return fmt.Errorf("there is %q", shown)
	})
}

// openPseudoterminal returns the person's end of a new terminal, and that of a program.
func openPseudoterminal(t *testing.T) (ours, theirs *os.File) {
	t.Helper()
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := ours.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var number int
	var failure error
	if err := raw.Control(func(fd uintptr) {
		if failure = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); failure != nil {
			return
		}
		if failure = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: 160}); failure != nil {
			return
		}
		number, failure = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
	}); err != nil || failure != nil {
		t.Fatal(err, failure)
	}
	if theirs, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	return ours, theirs
}

// tableAge is a time that a table prints, which is another one in each run: on a slow machine a sandbox has been idle for
// a while when a fast one has it from a moment ago.
var tableAge = regexp.MustCompile(`^((\d+[smhd])+|<none>)$`)

// printed reports whether a screen has some lines in their order, perhaps with others between them. Ages may differ.
func printed(shown string, want []string) bool {
	lines := strings.Split(shown, "\n")
	for _, text := range want {
		at := slices.IndexFunc(lines, func(line string) bool { return strings.Contains(line, text) || sameWords(line, text) })
		if at < 0 {
			return false
		}
		lines = lines[at:]
	}
	return true
}

func sameWords(line, want string) bool {
	return slices.EqualFunc(strings.Fields(line), strings.Fields(want), func(a, b string) bool {
		return a == b || tableAge.MatchString(a) && tableAge.MatchString(b)
	})
}

// applies applies a manifest of the document, of which sandbar and kubectl think the same: that of the SandboxRunner is
// "the same" as the command above it.
func (q *quickStart) applies(manifest string) {
	q.t.Helper()
	q.write("manifest.yaml", manifest)
	file := filepath.Join(q.dir, "manifest.yaml")
	if strings.Contains(manifest, "kind: SandboxRunner") {
		if got := q.must("apply", "-f", file); got != "sandboxrunner.sandbar.dev/web unchanged\n" {
			q.t.Errorf("the manifest is not the same as what the command made: %s", got)
		}
		return
	}
	if code, shown := q.atTerminal("kubectl apply -f "+file, "", ""); code != 0 {
		q.t.Errorf("kubectl apply of\n%s\n%s", manifest, shown)
	}
}

// seesThePage opens the address that sandbar open has given to the person's browser.
func (q *quickStart) seesThePage() {
	q.t.Helper()
	address, err := os.ReadFile(q.opened)
	if err != nil {
		q.t.Fatalf("sandbar open started no browser: %v", err)
	}
	page := newBrowser(q.t).open(q.t, string(address))
	until(page, "document.querySelector('h1').innerText", "Hello from a sandbox")
}

// letsCarolIn checks that the roles that the document gives to Carol are those that it says.
func (q *quickStart) letsCarolIn() {
	q.t.Helper()
	carol := *q.tenant
	carol.user, carol.token = "carol", world.Stack.Token("carol")
	s := newTerminal(q.t, &carol)
	// kcp's authorizer learns of the roles a moment later.
	eventually(q.t, "carol reads the sandbox", func() error {
		if code, out, errs := s.run("get", "sandboxrunners", "-o", "name"); code != 0 || out != "sandboxrunner.sandbar.dev/web\n" {
			return fmt.Errorf("exit code %d: %s%s", code, out, errs)
		}
		return nil
	})
	if code, _, errs := s.run("delete", "sandboxrunner", "web"); code != 1 || !strings.Contains(errs, "denies") {
		q.t.Errorf("carol deletes the sandbox: exit code %d: %s", code, errs)
	}
}

func (q *quickStart) hasEdited() {
	q.t.Helper()
	if got := q.must("get", "sandboxrunner", "web", "-o", "jsonpath={.spec.lifecycle.sleepAfterUnused}"); got != "30m" && got != "30m0s" {
		q.t.Errorf("spec.lifecycle.sleepAfterUnused is %q", got)
	}
}

func (q *quickStart) hasDeleted() {
	q.t.Helper()
	if code, _, errs := q.run("get", "sandboxrunner", "web"); code != 1 || !strings.Contains(errs, "there is no SandboxRunner web") {
		q.t.Errorf("exit code %d: %s", code, errs)
	}
}

// TestKubectlRunsTheCommandLineAsItsPlugin: under the name kubectl-sandbar on the PATH, sandbar is a command of kubectl.
func TestKubectlRunsTheCommandLineAsItsPlugin(t *testing.T) {
	calm(t)
	q := newQuickStart(t, newWorkspace(t, "alice"))
	if err := os.Symlink(q.program, filepath.Join(filepath.Dir(q.dir), "bin", "kubectl-sandbar")); err != nil {
		t.Fatal(err)
	}
	for command, want := range map[string]string{
		"kubectl plugin list":                              "/kubectl-sandbar",
		"kubectl sandbar whoami":                           q.tenant.path,
		"kubectl sandbar help exec":                        "Run a command in a sandbox",
		"kubectl sandbar get pods -o name || echo code $?": "code 1",
	} {
		if code, shown := q.atTerminal(command, "", ""); code != 0 || !strings.Contains(shown, want) {
			t.Errorf("$ %s\n%s\nexit code %d", command, shown, code)
		}
	}
}
