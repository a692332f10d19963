// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// releaseVariable has the test run that builds a release; make krew sets it. PLATFORMS of hack/dist.sh makes it shorter.
const releaseVariable = "SANDBAR_RELEASE"

// What make dist builds is what krew installs, and what kubectl then runs: the archives and the manifest are those of
// hack/dist.sh, with the program of this checkout in them.
func TestAReleaseIsInstalledByKrew(t *testing.T) {
	if os.Getenv(releaseVariable) == "" {
		t.Skipf("it builds the command line for five platforms: make krew, or %s=1", releaseVariable)
	}
	const version = "v0.0.0-tried"
	dist := t.TempDir()
	build := exec.CommandContext(t.Context(), "../dist.sh")
	build.Env = append(os.Environ(), "DIST="+dist, "VERSION="+version)
	build.Stderr = t.Output()
	if err := build.Run(); err != nil {
		t.Fatal(err)
	}
	built := platforms
	if some := os.Getenv("PLATFORMS"); some != "" {
		built = strings.Fields(strings.ReplaceAll(some, "/", "_"))
	}
	k := newInstaller(t, dist, version)
	for _, platform := range built {
		plugin := k.mustInstall(platform)
		if platform == here {
			k.runsByKubectl(filepath.Dir(plugin))
		}
	}
	if !slices.Contains(built, here) {
		t.Errorf("nothing was run: %v has no %s", built, here)
	}
}

// runsByKubectl runs the plugin as people do. Nothing else is in the PATH, such as another installation's plugin.
func (k *installer) runsByKubectl(bin string) {
	k.t.Helper()
	program, err := exec.LookPath(cmp.Or(os.Getenv("KUBECTL"), "kubectl"))
	if err != nil {
		k.t.Fatalf("%v: KUBECTL says where another one is", err)
	}
	for args, want := range map[string]string{"sandbar version": k.version, "plugin list": filepath.Join(bin, "kubectl-sandbar")} {
		cmd := exec.CommandContext(k.t.Context(), program, strings.Fields(args)...)
		cmd.Env = append(os.Environ(), "PATH="+bin, "HOME="+bin)
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), want) || strings.Contains(string(out), "warning") {
			k.t.Errorf("kubectl %s: %v\n%s", args, err, out)
		}
	}
}
