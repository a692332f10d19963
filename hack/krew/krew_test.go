// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/krew/pkg/constants"
	"sigs.k8s.io/krew/pkg/index"
	"sigs.k8s.io/yaml"
)

const version = "v1.2.0"

// platforms are those of hack/dist.sh.
var platforms = []string{"linux_amd64", "linux_arm64", "darwin_amd64", "darwin_arm64", "windows_amd64"}

// dist makes the archives of a release, with a program that prints by which name it was called.
func dist(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, platform := range platforms {
		program := "sandbar"
		if strings.HasPrefix(platform, "windows") {
			program = "sandbar.exe"
		}
		var text bytes.Buffer
		zipped := gzip.NewWriter(&text)
		files := tar.NewWriter(zipped)
		for name, content := range map[string]string{program: "#!/bin/sh\necho \"$(basename \"$0\") $*\"\n", "LICENSE": "Apache\n"} {
			if err := files.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(content))}); err != nil {
				t.Fatal(err)
			}
			if _, err := files.Write([]byte(content)); err != nil {
				t.Fatal(err)
			}
		}
		if err := files.Close(); err != nil {
			t.Fatal(err)
		}
		if err := zipped.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "sandbar_"+version+"_"+platform+".tar.gz"), text.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestTheManifestHasNothingButKrewsFields(t *testing.T) {
	var text bytes.Buffer
	if err := write(&text, version, dist(t)); err != nil {
		t.Fatal(err)
	}
	var plugin index.Plugin
	if err := yaml.UnmarshalStrict(text.Bytes(), &plugin); err != nil {
		t.Fatalf("%v\n%s", err, &text)
	}
	spec := plugin.Spec
	switch {
	case plugin.TypeMeta != metav1.TypeMeta{APIVersion: constants.CurrentAPIVersion, Kind: constants.PluginKind} || plugin.Name != "sandbar":
		t.Errorf("it is %v %s", plugin.TypeMeta, plugin.Name)
	case spec.Version != version || spec.Homepage == "" || spec.Description == "" || spec.Caveats == "":
		t.Errorf("a field is missing: %+v", spec)
	case spec.ShortDescription == "" || strings.ContainsAny(spec.ShortDescription, "\r\n") || strings.HasSuffix(spec.ShortDescription, ".") || len(spec.ShortDescription) > 50:
		// krew's guide asks for at most 50 characters, and for no full stop.
		t.Errorf("%q", spec.ShortDescription)
	}
	var found []string
	for _, p := range spec.Platforms {
		found = append(found, p.Selector.MatchLabels["os"]+"_"+p.Selector.MatchLabels["arch"])
		if !strings.HasSuffix(p.URI, "/"+version+"/sandbar_"+version+"_"+found[len(found)-1]+".tar.gz") || len(p.Sha256) != 64 || len(p.Files) != 2 || p.Files[0].From != p.Bin {
			t.Errorf("%+v", p)
		}
	}
	if slices.Sort(found); !slices.Equal(found, slices.Sorted(slices.Values(platforms))) {
		t.Errorf("it has the platforms %v", found)
	}
	script, err := os.ReadFile("../dist.sh")
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.ReplaceAll(strings.Join(platforms, " "), "_", "/"); !strings.Contains(string(script), want) {
		t.Errorf("hack/dist.sh does not build for %s", want)
	}
}

// krew itself reads the manifest, checks the hash, and installs the plugin under the name by which kubectl finds it.
func TestKrewInstallsThePlugin(t *testing.T) {
	archives := dist(t)
	var text bytes.Buffer
	if err := write(&text, version, archives); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(archives, "sandbar.yaml"), text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	k := newInstaller(t, archives, version)
	if out, err := k.install(here, "windows_amd64", t.TempDir()); err == nil || !strings.Contains(out, "checksum") {
		t.Errorf("another archive than the manifest's is installed: %v\n%s", err, out)
	}
	for _, platform := range platforms {
		plugin := k.mustInstall(platform)
		if platform != here {
			continue
		}
		if out, err := exec.CommandContext(t.Context(), plugin, "version").Output(); err != nil || string(out) != "kubectl-sandbar version\n" {
			t.Errorf("%q %v", out, err)
		}
	}
}

func TestAManifestIsOfAReleaseAlone(t *testing.T) {
	archives := dist(t)
	for version, want := range map[string]string{
		"dev":           `"dev" is not the version of a release, such as v1.2.0`,
		"1.2.0":         `"1.2.0" is not the version of a release`,
		"v1.2":          `"v1.2" is not the version of a release`,
		"v1.2.0-3-gabc": "has no archive sandbar_v1.2.0-3-gabc_OS_ARCH.tar.gz",
		"v1.2.1":        "has no archive sandbar_v1.2.1_OS_ARCH.tar.gz",
	} {
		if err := write(&bytes.Buffer{}, version, archives); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", version, err, want)
		}
	}
	if err := os.WriteFile(filepath.Join(archives, "sandbar_"+version+"_plan9.tar.gz"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := write(&bytes.Buffer{}, version, archives); err == nil || !strings.Contains(err.Error(), "does not name its platform") {
		t.Errorf("%v", err)
	}
}
