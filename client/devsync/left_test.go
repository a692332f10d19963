// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package devsync_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/sandbar-dev/sandbar/client/devsync"
)

// withModesThatCount makes the modes of files count for this test's goroutine, also for root.
func withModesThatCount(t *testing.T) {
	t.Helper()
	runtime.LockOSThread()
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var before, now [2]unix.CapUserData
	if err := unix.Capget(&head, &before[0]); err != nil {
		t.Fatal(err)
	}
	now = before
	now[0].Effective &^= 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_DAC_READ_SEARCH
	if err := unix.Capset(&head, &now[0]); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Capset(&head, &before[0]); err != nil {
			t.Error(err)
		}
		runtime.UnlockOSThread()
	})
}

func chmod(t *testing.T, name string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(name, mode); err != nil {
		t.Fatal(err)
	}
}

func reasons(refusals []devsync.Refusal) map[string]string {
	m := map[string]string{}
	for _, r := range refusals {
		m[r.Path] = r.Reason
	}
	return m
}

func TestWhatCannotBeReadIsRefusedAndStopsNothingElse(t *testing.T) {
	w := newWorld(t)
	write(t, w.dir, files{
		"a": "1", "closed/x": "1", "half/x": "1", "ignores/.gitignore": "secret", "ignores/secret": "1", "file": "1", "z": "1",
	})
	w.mustSync(func(o *devsync.Options) { o.Secrets = []string{"*"} })
	write(t, w.dir, files{"z": "2", "closed/y": "2"})
	withModesThatCount(t)
	for name, mode := range map[string]os.FileMode{"closed": 0, "half": 0o600, "ignores/.gitignore": 0, "file": 0} {
		chmod(t, filepath.Join(w.dir, name), mode)
	}
	t.Cleanup(func() {
		chmod(t, filepath.Join(w.dir, "closed"), 0o755)
		chmod(t, filepath.Join(w.dir, "half"), 0o755)
	})
	// An engine that begins has only its cache to know what was there: it deletes nothing either.
	r := w.mustSync(nil)
	want := map[string]string{
		"closed":  "the directory cannot be read: permission denied",
		"half":    "a file with what to ignore there cannot be read: permission denied",
		"ignores": "a file with what to ignore there cannot be read: permission denied",
		"file":    "the file cannot be read: permission denied",
	}
	if diff := cmp.Diff(want, reasons(r.Refused)); diff != "" {
		t.Errorf("refused (-want +got):\n%s", diff)
	}
	got := read(t, w.workspace)
	if diff := cmp.Diff(files{"a": "1", "closed/x": "1", "half/x": "1", "ignores/.gitignore": "secret", "file": "1", "z": "2"}, got); diff != "" {
		t.Errorf("the sandbox (-want +got):\n%s", diff)
	}
}

const aKey = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEA\n-----END OPENSSH PRIVATE KEY-----\n"

func TestSecretsStayUnlessTheyAreNamed(t *testing.T) {
	tree := files{
		"app.js": "1", ".env": "A=1", "web/.env.local": "A=1", ".env.example": "A=", ".ssh/config": "1", ".ssh/id_rsa": aKey, "web/.kube/config": "1",
		".AWS/credentials": "1", "tls/server.PEM": "1", "tls/server.crt": "1", "deploy": aKey, "docs/pem.md": "about -----BEGIN RSA PRIVATE KEY-----",
		"id_ed25519": "1", "putty": "PuTTY-User-Key-File-3: ssh-rsa\n", "keys.go": "package keys",
	}
	harmless := files{"app.js": "1", ".env.example": "A=", "tls/server.crt": "1", "docs/pem.md": tree["docs/pem.md"], "keys.go": "package keys"}
	for name, c := range map[string]struct {
		named []string
		sent  []string
	}{
		"none":             {},
		"a name":           {[]string{".env"}, []string{".env"}},
		"a directory":      {[]string{".ssh"}, []string{".ssh/config", ".ssh/id_rsa"}},
		"a path":           {[]string{"/deploy", "tls/server.PEM"}, []string{"deploy", "tls/server.PEM"}},
		"a pattern":        {[]string{".env.*"}, []string{"web/.env.local"}},
		"another name":     {[]string{"env"}, nil},
		"what lies deeper": {[]string{"id_rsa"}, nil}, // the directory above it stays here
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			write(t, w.dir, tree)
			r := w.mustSync(func(o *devsync.Options) { o.Secrets = c.named })
			want := maps.Clone(harmless)
			for _, path := range c.sent {
				want[path] = tree[path]
			}
			if diff := cmp.Diff(want, read(t, w.workspace)); diff != "" {
				t.Errorf("the sandbox (-want +got):\n%s", diff)
			}
			if len(r.Withheld) == 0 || len(r.Refused) > 0 {
				t.Errorf("withheld %v, refused %v", r.Withheld, r.Refused)
			}
		})
	}
}

// What was named once and is not any more stays in the sandbox: it is ignored, and not deleted. What
// has changed since does not follow.
func TestASecretThatIsNotNamedAnyMoreIsLeftAlone(t *testing.T) {
	w := newWorld(t)
	write(t, w.dir, files{"a": "1", ".env": "A=1", "key": aKey})
	w.mustSync(func(o *devsync.Options) { o.Secrets = []string{".env", "key"} })
	write(t, w.dir, files{".env": "A=2"})
	r := w.mustSync(twoWay)
	want := files{"a": "1", ".env": "A=1", "key": aKey}
	if diff := cmp.Diff(want, read(t, w.workspace)); diff != "" {
		t.Errorf("the sandbox (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{".env": "an environment file may hold secrets", "key": "the file is a private key"}, reasons(r.Withheld)); diff != "" {
		t.Errorf("withheld (-want +got):\n%s", diff)
	}
}

// Each is told once, with its reason, and again only when it was fit to be sent in between.
func TestWatchTellsOnceWhatStaysHere(t *testing.T) {
	w := newWorld(t)
	write(t, w.dir, files{"a": "1", ".env": "A=1", "out": "-> /etc/passwd", "two\nlines": "1"})
	opts := w.options()
	events := make(chan devsync.Event, 1000)
	opts.OnEvent = func(e devsync.Event) { events <- e }
	e, err := devsync.Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- e.Watch(ctx) }()
	told := map[string]int{}
	until := func(path string, state devsync.FileState) {
		t.Helper()
		for late := time.After(20 * time.Second); ; {
			select {
			case e := <-events:
				if e.State == devsync.FileRefused || e.State == devsync.FileWithheld {
					told[e.Path+": "+string(e.State)+", "+e.Reason]++
				}
				if e.Path == path && (e.State == state || e.Type == devsync.EventSettled && state == "") {
					return
				}
			case <-late:
				t.Fatalf("%s does not become %s; told %v", path, state, told)
			}
		}
	}
	until("a", devsync.FileApplied)
	write(t, w.dir, files{".gitignore": "none"}) // has everything looked at again
	until(".gitignore", devsync.FileApplied)
	write(t, w.dir, files{"out": "-"})
	write(t, w.dir, files{"b": "1"})
	until("b", devsync.FileApplied)
	write(t, w.dir, files{"out": "-> /etc/passwd"})
	until("out", devsync.FileRefused)
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	e.Close()
	want := map[string]int{
		".env: withheld, an environment file may hold secrets":           1,
		"out: refused, the symlink's target is not relative":             2,
		"two\nlines: refused, the name contains a line break: rename it": 1,
	}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}

func TestADirectoryOfMoreThanOneProjectHasToBeMeant(t *testing.T) {
	top := t.TempDir()
	t.Setenv("HOME", filepath.Join(top, "people", "alice"))
	for _, dir := range []string{
		"people/alice/.ssh", "people/alice/src/app/.git", "people/alice/src/app/web", "people/alice/alone/node_modules/x/.git",
		"people/alice/team/host/org/repo/.git", "people/alice/deep/1/2/3/4/.git", "people/alice-other",
	} {
		if err := os.MkdirAll(filepath.Join(top, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("people/alice", filepath.Join(top, "link")); err != nil {
		t.Fatal(err)
	}
	for dir, reason := range map[string]string{
		"people/alice": "is your home directory; all of it would be sent: .ssh, alone, deep, src, team", "people": "is above your home directory", ".": "is above your home directory",
		"link": "is your home directory", "people/alice/src": "is above the git repository app; all of it would be sent: app",
		"people/alice/team/host": "is above the git repository org/repo", "people/alice/src/app": "", "people/alice/src/app/web": "",
		"people/alice/alone": "", "people/alice/deep": "", "people/alice-other": "", "/": "is the root of the file system",
	} {
		full := dir
		if dir != "/" {
			full = filepath.Join(top, dir)
		}
		err := devsync.CheckDir(full)
		var broad *devsync.BroadError
		if errors.As(err, &broad) != (reason != "") || err != nil && !strings.Contains(err.Error(), reason) {
			t.Errorf("%s: %v, want %q", dir, err, reason)
		}
		if dir == "/" {
			continue // it is not synced in a test
		}
		opts := devsync.Options{Dir: full, ID: "x", StateDir: t.TempDir()}
		if _, err := devsync.Open(opts); errors.As(err, &broad) != (reason != "") {
			t.Errorf("opening %s: %v", dir, err)
		}
		opts.Broad, opts.StateDir = true, t.TempDir()
		e, err := devsync.Open(opts)
		if err != nil {
			t.Errorf("opening %s, which is meant: %v", dir, err)
			continue
		}
		e.Close()
	}
}
