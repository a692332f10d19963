// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
)

func TestADurationThatIsNoneIsToldTheLargest(t *testing.T) {
	for _, value := range []string{"99999999999h", "2562048h", "10", "soon"} {
		code, _, stderr := newWorld(t).Run(t, "renew", "web", "--extend", value)
		want := fmt.Sprintf("sandbar: --extend %q is no duration such as 90s or 2h30m, of at most 2562047h; see sandbar renew --help\n", value)
		if code != cli.ExitUsage || stderr != want {
			t.Errorf("exit code %d, %q, want %q", code, stderr, want)
		}
	}
}

func TestWrongUsageExitsWithTwo(t *testing.T) {
	w := newWorld(t)
	w.Plane = func(_ http.ResponseWriter, r *http.Request) { t.Errorf("%s was called", r.URL) }
	for _, args := range [][]string{
		{"logs"},
		{"logs", "web", "--stream", "stdin"},
		{"logs", "web", "-o", "yaml"},
		{"logs", "web", "--unknown"},
		{"dev", "web", "--create", "--timeout", "-1s"},
		{"trust", "https://one.example.com", "https://two.example.com"},
		{"no-such-command"},
		{"env", "web", "A=1", "--restart", "later"},
		{"dev", "web", "--start-command", "x"},
		{"dev", "web", "--timeout", "1m"},
		{"logs", "web", "--since", "-5m"},
		{"port-forward", "web", "80", "--port", "8080"},
	} {
		if code, stdout, stderr := w.Run(t, args...); code != cli.ExitUsage || stdout != "" || stderr == "" {
			t.Errorf("%q: exit code %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
	}
}
