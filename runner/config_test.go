// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package runner

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbar-dev/sandbar/runner/ringlog"
	"github.com/sandbar-dev/sandbar/runner/workspace"
)

const testToken = "correct-horse-battery-staple"

func tokensOf(t testing.TB, values ...string) Tokens {
	t.Helper()
	var all Tokens
	for _, value := range values {
		key, err := newKey(value)
		if err != nil {
			t.Fatal(err)
		}
		all.keys = append(all.keys, key)
	}
	return all
}

func TestConfigFromEnv(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(testToken+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	rotated := newMount(t, map[string]string{"token": testToken, previousFile: laterToken + "\n"})
	defaults := Config{
		Workdir: "/workspace", Port: 3000, ControlAddr: ":7070", Tokens: tokensOf(t, testToken),
		LogBytes: ringlog.DefaultCapacity, StopGrace: 5 * time.Second,
		SyncBytes: 32 << 20, Workspace: workspace.DefaultLimits(),
		ChildEnv: []string{"PORT=3000"},
	}
	for name, test := range map[string]struct {
		env    []string
		change func(*Config)
		err    string
	}{
		"a token is enough": {
			env: []string{"SANDBAR_CONTROL_TOKEN=" + testToken}, change: func(*Config) {},
		},
		"the token file comes before the variable": {
			env:    []string{"SANDBAR_CONTROL_TOKEN=too short", "SANDBAR_CONTROL_TOKEN_FILE=" + file},
			change: func(c *Config) { c.Tokens.file = file },
		},
		"the token before it may lie beside it": {
			env: []string{"SANDBAR_CONTROL_TOKEN_FILE=" + rotated.file()},
			change: func(c *Config) {
				c.Tokens = tokensOf(t, testToken, laterToken)
				c.Tokens.file = rotated.file()
			},
		},
		"everything can be set": {
			env: []string{
				"SANDBAR_CONTROL_TOKEN=" + testToken, "SANDBAR_WORKDIR=/w", "SANDBAR_START_COMMAND=npm run dev",
				"SANDBAR_PORT=8080", "SANDBAR_CONTROL_ADDR=127.0.0.1:1", "SANDBAR_LOG_BYTES=1000000",
				"SANDBAR_STOP_GRACE=10s", "SANDBAR_MAX_SYNC_BYTES=5", "SANDBAR_MAX_SYNC_FILES=6",
				"SANDBAR_MAX_FILE_BYTES=7", "SANDBAR_MAX_BATCH_BYTES=8",
				"SANDBAR_MAX_WORKSPACE_FILES=9", "SANDBAR_MAX_WORKSPACE_BYTES=10", "SANDBAR_POD_UID=" + testPodUID,
			},
			change: func(c *Config) {
				*c = Config{
					Workdir: "/w", StartCommand: "npm run dev", Port: 8080, ControlAddr: "127.0.0.1:1",
					Tokens: c.Tokens, PodUID: testPodUID, LogBytes: 1_000_000, StopGrace: 10 * time.Second, SyncBytes: 5,
					Workspace: workspace.Limits{Files: 6, FileBytes: 7, BatchBytes: 8, TotalFiles: 9, TotalBytes: 10},
					ChildEnv:  []string{"PORT=8080"},
				}
			},
		},
		"the app gets the environment without the runner's part": {
			env: []string{"PATH=/bin", "PORT=1", "SANDBAR_CONTROL_TOKEN=" + testToken, "SANDBAR_OTHER=x", "EMPTY="},
			change: func(c *Config) {
				c.ChildEnv = []string{"PATH=/bin", "EMPTY=", "PORT=3000"}
			},
		},
		"no token":               {env: nil, err: "does not start without one"},
		"an empty token":         {env: []string{"SANDBAR_CONTROL_TOKEN="}, err: "does not start without one"},
		"a short token":          {env: []string{"SANDBAR_CONTROL_TOKEN=short"}, err: "16 to 4096"},
		"a token with a space":   {env: []string{"SANDBAR_CONTROL_TOKEN=correct horse battery staple"}, err: "no spaces"},
		"a token file is absent": {env: []string{"SANDBAR_CONTROL_TOKEN_FILE=/none"}, err: "no such file"},
		"a token file is empty":  {env: []string{"SANDBAR_CONTROL_TOKEN_FILE=/dev/null"}, err: "CONTROL_TOKEN_FILE"},
		"a port out of range": {
			env: []string{"SANDBAR_CONTROL_TOKEN=" + testToken, "SANDBAR_PORT=65536"}, err: "SANDBAR_PORT must be an integer from 1 to 65535",
		},
		"a log too small for its entries": {
			env: []string{"SANDBAR_CONTROL_TOKEN=" + testToken, "SANDBAR_LOG_BYTES=1"}, err: "SANDBAR_LOG_BYTES must be",
		},
		"a grace that is not a duration": {
			env: []string{"SANDBAR_CONTROL_TOKEN=" + testToken, "SANDBAR_STOP_GRACE=5"}, err: "SANDBAR_STOP_GRACE must be",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ConfigFromEnv(test.env)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Fatalf("the error is %v, want %q in it", err, test.err)
				}
				for _, pair := range test.env {
					if _, value, _ := strings.Cut(pair, "="); strings.HasPrefix(pair, envToken+"=") && value != "" && strings.Contains(err.Error(), value) {
						t.Errorf("the error %q contains the token", err)
					}
				}
				return
			}
			want := defaults
			test.change(&want)
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("the error is %v; config (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestHealthURL(t *testing.T) {
	for addr, want := range map[string]string{
		"":               "http://127.0.0.1:7070/healthz",
		":8000":          "http://127.0.0.1:8000/healthz",
		"0.0.0.0:8000":   "http://127.0.0.1:8000/healthz",
		"[::]:8000":      "http://127.0.0.1:8000/healthz",
		"10.0.0.1:8000":  "http://10.0.0.1:8000/healthz",
		"localhost:8000": "http://localhost:8000/healthz",
	} {
		if got, err := HealthURL([]string{"SANDBAR_CONTROL_ADDR=" + addr}); err != nil || got != want {
			t.Errorf("for %q: %q, %v; want %q", addr, got, err, want)
		}
	}
	if _, err := HealthURL([]string{"SANDBAR_CONTROL_ADDR=nonsense"}); err == nil {
		t.Error("an address without a port was taken")
	}
}
