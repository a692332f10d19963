// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package develop

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandbar-dev/sandbar/client"
	"github.com/sandbar-dev/sandbar/client/session"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/clitest"
)

func TestAProjectWhosePackagesAreNotInstalledIsToldSo(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	w, dir := newWorld(t), t.TempDir()
	workspace := w.WithRunner(t, "exec sleep 1000")
	s := &target{&cli.Target{Kubeconfig: w.Kubeconfig, TrustFile: w.Trust, Resource: client.SandboxRunners.GroupResource().String()}}
	web, err := s.Instance(t.Context(), "web", "exec")
	if err != nil {
		t.Fatal(err)
	}
	p := session.Part{Dir: dir, Instance: web}
	if p.LacksModules(t.Context()) {
		t.Error("a project without a package.json lacks packages")
	}
	clitest.Put(t, dir, "package.json", `{"scripts": {"dev": "node ."}}`)
	if p.LacksModules(t.Context()) {
		t.Error("a project that names no packages lacks them")
	}
	clitest.Put(t, dir, "package.json", `{"devDependencies": {"vite": "^8"}}`)
	if !p.LacksModules(t.Context()) {
		t.Error("a project that names packages has them in an empty sandbox")
	}
	if err := os.MkdirAll(filepath.Join(workspace, "node_modules", "vite"), 0o755); err != nil {
		t.Fatal(err)
	}
	if p.LacksModules(t.Context()) {
		t.Error("what is installed is not seen")
	}
}

func TestDevNamesMissingPackagesBeforeTheLastLines(t *testing.T) {
	var notes bytes.Buffer
	d := newDevPrinter(&bytes.Buffer{}, &notes, false, false, "")
	f := &stateFollower{
		name: "web", tell: func(state devState) error { return d.state("web", state) },
		crash:   func(context.Context) crash { return crash{lines: []string{"ENOENT"}} },
		lacking: func(context.Context) bool { return true }, synced: func() bool { return true },
	}
	if err := f.observe(t.Context(), inState("Degraded", "False", "m")); err != nil {
		t.Fatal(err)
	}
	said := notes.String()
	if at := strings.Index(said, "not installed, so do that first: sandbar exec web -- npm install"); at < 0 || at > strings.Index(said, "ENOENT") || strings.Contains(said, "if it lacks") {
		t.Errorf("it says %s", said)
	}
}
