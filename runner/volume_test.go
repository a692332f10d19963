// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package runner

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	syncwire "github.com/sandbar-dev/sandbar/apis/wire/sync"
	"github.com/sandbar-dev/sandbar/runner/workspace"
)

// The app lists its directory while its output is written down and files are synced.
func TestAnAppWhoseWorkspaceIsInAVolumeSeesItsOwnFilesOnly(t *testing.T) {
	volume := filepath.Join(t.TempDir(), "volume")
	if err := os.Mkdir(volume, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(volume, "from-before"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	s := startSandbox(t, "echo started; exec sleep 1000", func(c *Config) {
		c.Volume, c.Workdir = volume, filepath.Join(volume, workspace.TreeName)
	})
	callJSON[syncwire.Reply](s, "POST", "/sync", `{"files":[{"path":"sub/file","content":"here"}]}`, 200)
	await(t, s.lines("tail=10"), "started")
	c := s.startExec(shell1("pwd; ls -A; cat sub/file"))
	c.read(c.ended)
	if want := s.dirOf(volume) + "\nfrom-before\nsub\nhere"; c.out != want {
		t.Errorf("the app sees %q, want %q", c.out, want)
	}
	if _, listing := s.call("GET", "/files", ""); !strings.Contains(listing, "from-before") || strings.Contains(listing, workspace.TreeName) {
		t.Errorf("the listing is %s", listing)
	}
}

func (s *sandbox) dirOf(volume string) string {
	s.t.Helper()
	dir, err := filepath.EvalSymlinks(filepath.Join(volume, workspace.TreeName))
	if err != nil {
		s.t.Fatal(err)
	}
	return dir
}

func TestMountsThatDoNotFitEachOtherAreRefused(t *testing.T) {
	volume := t.TempDir()
	if err := os.Mkdir(filepath.Join(volume, workspace.TreeName), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		config Config
		says   []string
	}{
		"another directory than the volume's": {Config{Volume: volume, Workdir: t.TempDir()}, []string{"SANDBAR_WORKDIR", workspace.TreeName, "SANDBAR_VOLUME", "subPath"}},
		"a working directory that is missing": {Config{Volume: volume, Workdir: filepath.Join(volume, "none")}, []string{"SANDBAR_WORKDIR"}},
		"a volume in place of the workspace":  {Config{Workdir: volume}, []string{workspace.TreeName, "SANDBAR_VOLUME"}},
		"a volume that is missing":            {Config{Volume: filepath.Join(volume, "none"), Workdir: volume}, []string{"opening the volume"}},
	} {
		t.Run(name, func(t *testing.T) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer listener.Close()
			c.config.Workspace = workspace.DefaultLimits()
			err = run(context.Background(), c.config, slog.New(slog.DiscardHandler), listener)
			if err == nil {
				t.Fatal("it ran")
			}
			for _, want := range c.says {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("it says %q, without %q", err, want)
				}
			}
		})
	}
}
