// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// here is the platform that the test runs on.
const here = runtime.GOOS + "_" + runtime.GOARCH

// installer is krew, with the manifest and the archives of a release.
type installer struct {
	t                      *testing.T
	program, dist, version string
}

// newInstaller builds krew as it is released.
func newInstaller(t *testing.T, dist, version string) *installer {
	t.Helper()
	program := filepath.Join(t.TempDir(), "krew")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "sigs.k8s.io/krew/cmd/krew").CombinedOutput(); err != nil {
		t.Fatalf("building krew: %v\n%s", err, out)
	}
	return &installer{t, program, dist, version}
}

// install has krew install the archive of one platform as krew on another one would, below root.
func (k *installer) install(on, archive, root string) (string, error) {
	k.t.Helper()
	return k.run(on, root, "install", "--manifest="+filepath.Join(k.dist, "sandbar.yaml"),
		"--archive="+filepath.Join(k.dist, "sandbar_"+k.version+"_"+archive+".tar.gz"))
}

func (k *installer) run(on, root string, args ...string) (string, error) {
	k.t.Helper()
	goos, arch, _ := strings.Cut(on, "_")
	cmd := exec.CommandContext(k.t.Context(), k.program, args...)
	cmd.Env = append(os.Environ(), "KREW_ROOT="+root, "KREW_NO_UPGRADE_CHECK=1", "HOME="+root, "KREW_OS="+goos, "KREW_ARCH="+arch)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// mustInstall installs the plugin for a platform, and returns the path under which kubectl finds it there. The license
// has to be beside the program: krew's index takes no plugin without one.
func (k *installer) mustInstall(platform string) (plugin string) {
	k.t.Helper()
	root := k.t.TempDir()
	if out, err := k.install(platform, platform, root); err != nil || !strings.Contains(out, "kubectl sandbar") {
		k.t.Fatalf("on %s: %v\n%s", platform, err, out)
	}
	plugin = filepath.Join(root, "bin", "kubectl-sandbar")
	if strings.HasPrefix(platform, "windows") {
		plugin += ".exe"
	}
	program, err := filepath.EvalSymlinks(plugin)
	if err != nil {
		k.t.Fatalf("on %s: %v", platform, err)
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(program), "LICENSE")); err != nil {
		k.t.Errorf("on %s: %v", platform, err)
	}
	return plugin
}
