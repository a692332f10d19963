// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package develop

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandbar-dev/sandbar/client/object/objecttest"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/clitest"
)

// withBox has the workspace of stocked with the Sandbox box and the SandboxRunner run, whose data plane is the world's own.
func (w *world) withBox(t *testing.T) *objecttest.Server {
	t.Helper()
	s := w.Stocked(t)
	for resource, name := range map[string]string{"sandboxes": "box", "sandboxrunners": "run"} {
		s.Put(resource, map[string]any{
			"apiVersion": "sandbar.dev/v1alpha1", "kind": clitest.KindsOf[resource], "metadata": map[string]any{"name": name, "uid": "uid-of-" + name},
			"spec": map[string]any{},
			"status": map[string]any{"phase": "Ready", "dataPlane": map[string]any{
				"url": w.AddressOf(resource, name), "verbs": []any{"log", "restart", "files", "sync"},
			}},
		})
	}
	return s
}

// A command finds its instance by NAME alone, by KIND/NAME and by --resource, and says what it was told.
func TestACommandTakesNameAndKind(t *testing.T) {
	w := newWorld(t)
	w.withBox(t)
	w.Serve(func(rw http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_, _ = rw.Write([]byte("hello\n"))
		}
	})
	for _, args := range [][]string{
		{"run"},
		{"sandboxrunner/run"},
		{"sbr/run"},
		{"run", "--resource", "sandboxrunners.sandbar.dev"},
		{"box"},
		{"sandbox/box"},
		{"sandboxes/box"},
		{"sbx/box"},
		{"Sandbox/box"},
		{"sandboxes.sandbar.dev/box"},
		{"box", "--resource", "sandboxes.sandbar.dev"},
	} {
		if code, stdout, stderr := w.Run(t, append([]string{"logs"}, args...)...); code != 0 || stdout != "hello\n" {
			t.Errorf("logs %q: exit code %d, %q, %s", args, code, stdout, stderr)
		}
		if code, _, stderr := w.Run(t, append([]string{"restart"}, args...)...); code != 0 || stderr != args[0]+" has been restarted.\n" {
			t.Errorf("restart %q: exit code %d, %s", args, code, stderr)
		}
	}
	for _, from := range []string{"box:a", "sandbox/box:a"} {
		to := filepath.Join(t.TempDir(), "a")
		code, _, stderr := w.Run(t, "cp", from, to)
		if got, err := os.ReadFile(to); code != 0 || err != nil || string(got) != "hello\n" {
			t.Errorf("cp %s: exit code %d, %s, %q (%v)", from, code, stderr, got, err)
		}
	}
}

// A SandboxRunner by its name alone costs one request to the workspace, as it did before other kinds were looked at.
func TestASandboxRunnerIsFoundWithOneRequest(t *testing.T) {
	w := newWorld(t)
	s := w.withBox(t)
	w.Serve(func(http.ResponseWriter, *http.Request) {})
	for line, want := range map[string]int{"restart run": 1, "restart box --resource sandboxes.sandbar.dev": 1, "restart sandbox/box": 2} {
		before := len(s.Requests())
		if code, _, stderr := w.Run(t, strings.Fields(line)...); code != 0 {
			t.Fatalf("%s: exit code %d, %s", line, code, stderr)
		}
		if asked := s.Requests()[before:]; len(asked) != want {
			t.Errorf("%s costs %d requests, want %d: %q", line, len(asked), want, asked)
		}
	}
}

func TestTheSandboxesSideOfACopy(t *testing.T) {
	for arg, want := range map[string]string{
		"web:a": "web a", "web:": "web ", "sandbox/web:a/b:c": "sandbox/web a/b:c", "things.example.com/web:x": "things.example.com/web x",
		"./a:b": "", "../a:b": "", "/a:b": "", "a/b/c:d": "", "a": "", "a/b": "", "_x/y:z": "",
	} {
		got := ""
		if name, path, ok := inSandbox(arg); ok {
			got = fmt.Sprintf("%s %s", name, path)
		}
		if got != want {
			t.Errorf("%s is %q, want %q", arg, got, want)
		}
	}
}
