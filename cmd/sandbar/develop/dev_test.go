// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package develop

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sandbar-dev/sandbar/client/devsync"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/clitest"
)

func TestSyncListsConflictsAndPreferDecidesThem(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	w, dir := newWorld(t), t.TempDir()
	workspace := w.WithRunner(t, "")
	clitest.Put(t, dir, "a", "1")
	clitest.Put(t, dir, "b", "1")
	if code, stdout, stderr := w.Run(t, "sync", "web", dir); code != 0 || stdout != "" || !strings.Contains(stderr, "a applied") || clitest.ContentOf(workspace, "a") != "1" {
		t.Fatalf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	for _, name := range []string{"a", "b"} {
		clitest.Put(t, dir, name, "here")
		clitest.Put(t, workspace, name, "there")
	}
	code, stdout, stderr := w.Run(t, "sync", "web", dir)
	want := "conflict\ta\tchanged here and in the sandbox\nconflict\tb\tchanged here and in the sandbox\n"
	if code != cli.ExitFailure || stdout != want || !strings.Contains(stderr, "2 conflicts; sandbar sync web "+dir+" --prefer local|remote") {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	code, stdout, _ = w.Run(t, "sync", "web", dir, "-o", "json", "--prefer", "local", "a")
	var report devsync.Report
	if err := json.Unmarshal([]byte(stdout), &report); err != nil || code != cli.ExitFailure || len(report.Conflicts) != 1 || report.Conflicts[0].Path != "b" || report.Sent != 1 {
		t.Errorf("exit code %d, %v: %s", code, err, stdout)
	}
	if code, _, stderr := w.Run(t, "sync", "web", dir, "--prefer", "remote"); code != 0 {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
	got := []string{clitest.ContentOf(dir, "a"), clitest.ContentOf(workspace, "a"), clitest.ContentOf(dir, "b"), clitest.ContentOf(workspace, "b")}
	if strings.Join(got, " ") != "here here there there" {
		t.Errorf("the files are %v", got)
	}
}

func TestDevCarriesEditsAndShowsTheLogUntilInterrupted(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	w, dir := newWorld(t), t.TempDir()
	workspace := w.WithRunner(t, `while :; do cat a 2>/dev/null && rm a; sleep 0.01; done`)
	ctx, cancel := context.WithCancel(t.Context())
	out, errs, ended := w.Begin(ctx, strings.NewReader(""), "dev", "web", dir)
	clitest.Await(t, errs, "in sync")
	clitest.Put(t, dir, "a", "hello from the editor\n")
	clitest.Await(t, errs, "a applied")
	clitest.Await(t, out, "hello from the editor\n")
	w.Cut()
	clitest.Await(t, errs, "the connection to the log is lost")
	clitest.Put(t, dir, "a", "hello again\n")
	clitest.Await(t, out, "hello again\n")
	for late := time.Now().Add(20 * time.Second); clitest.ContentOf(workspace, "a") != ""; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(late) {
			t.Fatal("the app did not take the file")
		}
	}
	cancel()
	if code := <-ended; code != cli.ExitInterrupted {
		t.Errorf("dev ended with %d: %s", code, errs)
	}
}

// Lines that are printed while the log is not being read are shown to nobody.
func TestDevReadsTheLogBeforeItSendsFiles(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	w, dir := newWorld(t), t.TempDir()
	w.WithRunner(t, `test -e a && echo "crashed at once"; exec sleep 1000`)
	plane := w.Plane
	var refused atomic.Int32
	w.Serve(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/log" && refused.Add(1) <= 2 {
			rw.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		plane(rw, r)
	})
	clitest.Put(t, dir, "a", "1")
	ctx, cancel := context.WithCancel(t.Context())
	out, errs, ended := w.Begin(ctx, strings.NewReader(""), "dev", "web", dir)
	clitest.Await(t, errs, "in sync")
	clitest.Await(t, out, "crashed at once\n")
	cancel()
	if code := <-ended; code != cli.ExitInterrupted {
		t.Errorf("dev ended with %d: %s", code, errs)
	}
}

// Why a sandbox cannot be reached is told once, by the files and the log together, and not with every
// try; and again when it happens again.
func TestDevSaysOnceThatASandboxIsSuspended(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	w, dir := newWorld(t), t.TempDir()
	w.WithRunner(t, `while :; do echo line; sleep 0.01; done`)
	runner := w.Plane
	suspended := clitest.Refusing(http.StatusConflict, "Conflict", "the instance is suspended by its tenant: resume it")
	tries := make(chan struct{})
	suspend := func() {
		w.Serve(func(rw http.ResponseWriter, r *http.Request) {
			select {
			case tries <- struct{}{}:
			default:
			}
			suspended(rw, r)
		})
		w.Cut()
	}
	clitest.Put(t, dir, "a", "1")
	ctx, cancel := context.WithCancel(t.Context())
	out, errs, ended := w.Begin(ctx, strings.NewReader(""), "dev", "web", dir)
	clitest.Await(t, out, "line\n")
	clitest.Await(t, errs, "in sync")
	const once = "(the instance is suspended by its tenant: resume it)"
	for n := 1; n <= 2; n++ {
		suspend()
		clitest.Put(t, dir, "b", strconv.Itoa(n))
		for range 6 {
			<-tries
		}
		w.Serve(runner)
		clitest.AwaitTimes(t, errs, "the sandbox can be reached again", n)
		clitest.AwaitTimes(t, errs, "the log goes on", n)
	}
	cancel()
	<-ended
	if got := strings.Count(errs.String(), once); got < 2 || got > 4 {
		t.Errorf("it is told %d times, and not once or, if something waits since, twice each time:\n%s", got, errs)
	}
}

// An app that is not there yet is waited for: nothing was lost, and nothing goes on.
func TestDevDoesNotCallTheBeginningOfALogALoss(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	w, dir := newWorld(t), t.TempDir()
	w.WithRunner(t, `while :; do echo line; sleep 0.01; done`)
	plane := w.Plane
	var refused atomic.Int32
	notReady := clitest.Refusing(http.StatusConflict, "Conflict", "the instance is not ready: wait")
	w.Serve(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/log" && refused.Add(1) <= 3 {
			notReady(rw, r)
			return
		}
		plane(rw, r)
	})
	ctx, cancel := context.WithCancel(t.Context())
	out, errs, ended := w.Begin(ctx, strings.NewReader(""), "dev", "web", dir)
	clitest.Await(t, out, "line\n")
	clitest.Await(t, errs, "in sync")
	cancel()
	<-ended
	got := strings.Replace(clitest.Untimed(errs.String()), "web is Ready\n", "", 1) // whenever it is looked at
	if want := "waiting for the log (the instance is not ready: wait)\nin sync (0 files, 0 bytes sent)\n"; got != want {
		t.Errorf("it says\n%s", errs)
	}
}

// It never becomes Ready here; what counts is what was created.
func TestASandboxRunnerThatDevCreatesSaysWhoHasCreatedIt(t *testing.T) {
	w := newWorld(t)
	s := w.WithObjects(t)
	code, _, stderr := w.Run(t, "dev", "new", t.TempDir(), "--create", "--timeout", "1s")
	made := s.Object("sandboxrunners", "default", "new")
	if made == nil {
		t.Fatalf("nothing was created: exit code %d, %s", code, stderr)
	}
	if got := made.GetAnnotations()["sandbar.dev/created-by"]; got != "alice" {
		t.Errorf("the creator is %q", got)
	}
}
