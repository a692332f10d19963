// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package start

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbar-dev/sandbar/client/session"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/clitest"
)

// A CA bundle that is not the one that the workspace names is refused with both hashes, and nothing is stored.
func TestTrustRefusesAnotherCA(t *testing.T) {
	expected := strings.Repeat("ab", 32)
	w := newWorld(t)
	w.Trust = filepath.Join(t.TempDir(), "trust.json")
	w.Offers(expected)
	for _, args := range [][]string{{"trust", w.URL}, {"trust", "--yes"}} {
		code, _, stderr := w.Run(t, args...)
		if code != cli.ExitFailure || !strings.Contains(stderr, "expected SHA-256 "+expected+", found "+clitest.HashOf(w.Bundle)) {
			t.Errorf("%v: exit code %d, %s", args, code, stderr)
		}
	}
	// The same with the port written out: it is the same data plane.
	bundle := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(bundle, w.Bundle, 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := w.Run(t, "trust", strings.Replace(w.URL, "https", "HTTPS", 1), "--ca-file", bundle); code != cli.ExitFailure || !strings.Contains(stderr, "expected SHA-256") {
		t.Errorf("with --ca-file: exit code %d, %s", code, stderr)
	}
	if _, err := os.Stat(w.Trust); !os.IsNotExist(err) {
		t.Errorf("something is stored: %v", err)
	}
}

func TestOnlyWhatAnswersAsADataPlaneIsTrusted(t *testing.T) {
	w := newWorld(t)
	bundle := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(bundle, w.Bundle, 0o600); err != nil {
		t.Fatal(err)
	}
	site := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(site.Close)
	ofSite := filepath.Join(t.TempDir(), "site.pem")
	if err := os.WriteFile(ofSite, clitest.CertificateOf(site), 0o600); err != nil {
		t.Fatal(err)
	}
	before, _ := os.ReadFile(w.Trust)
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"a port on which nobody answers": {[]string{"https://127.0.0.1:1", "--ca-file", bundle}, "connection refused"},
		"a site that is no data plane":   {[]string{site.URL, "--ca-file", ofSite}, "is no data plane of Sandbar"},
		"a certificate of an unknown CA": {[]string{w.URL}, "certificate"},
		"the data plane by another name": {[]string{strings.Replace(w.URL, "127.0.0.1", "localhost", 1), "--ca-file", bundle}, "certificate"},
	} {
		code, _, stderr := w.Run(t, append([]string{"trust"}, c.args...)...)
		after, _ := os.ReadFile(w.Trust)
		if code != cli.ExitFailure || !strings.Contains(stderr, c.says) || string(after) != string(before) {
			t.Errorf("%s: exit code %d, %q", name, code, stderr)
		}
	}
	if code, _, stderr := w.Run(t, "trust", "https://127.0.0.1:1", "--ca-file", bundle, "--no-check"); code != 0 {
		t.Errorf("unseen: exit code %d, %q", code, stderr)
	}
}

func TestTrustRefusesAWrongURLBeforeItReadsAnything(t *testing.T) {
	for _, address := range []string{"http://sandboxes.example.com", "sandboxes.example.com", "https://user@host"} {
		w := &world{&clitest.World{NewRoot: newRootCommand, Kubeconfig: filepath.Join(t.TempDir(), "none"), Trust: filepath.Join(t.TempDir(), "trust.json")}}
		code, _, stderr := w.Run(t, "trust", address)
		if code != cli.ExitUsage || !strings.Contains(stderr, "is not an https URL") {
			t.Errorf("%s: exit code %d, %q", address, code, stderr)
		}
	}
}

func TestADataPlaneIsTrustedOnceHoweverItsURLEnds(t *testing.T) {
	w := newWorld(t)
	before, err := os.ReadFile(w.Trust)
	if err != nil {
		t.Fatal(err)
	}
	planes, err := session.TrustStore{Path: w.Trust}.Load()
	if err != nil {
		t.Fatal(err)
	}
	bundle := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(bundle, planes[0].CABundle, 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := w.Run(t, "trust", planes[0].URL+"/", "--ca-file", bundle); code != 0 {
		t.Fatalf("exit code %d, %q", code, stderr)
	}
	after, err := os.ReadFile(w.Trust)
	if diff := cmp.Diff(string(before), string(after)); err != nil || diff != "" {
		t.Errorf("%v; trusted (-want +got):\n%s", err, diff)
	}
}
