// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandbar-dev/sandbar/client"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/clitest"
)

func TestTrustTakesTheCAThatTheBindingNamesInOneStep(t *testing.T) {
	bundle := newWorld(t).Bundle // each server of package httptest has the same certificate
	for name, args := range map[string][]string{"with the URL": {"trust"}, "without": {"trust", "--yes"}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.Trust = filepath.Join(t.TempDir(), "trust.json")
			w.Offers(clitest.HashOf(bundle))
			if len(args) == 1 {
				args = append(args, w.URL+"/")
			}
			code, _, stderr := w.Run(t, args...)
			if code != 0 || !strings.Contains(stderr, "has the SHA-256 that the binding sandbar.dev names, "+clitest.HashOf(bundle)) {
				t.Fatalf("exit code %d, %s", code, stderr)
			}
			w.Serve(func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write([]byte("hello\n")) })
			if code, stdout, stderr := w.Run(t, "logs", "web"); code != 0 || stdout != "hello\n" {
				t.Errorf("a call afterwards: %d, %q, %q", code, stdout, stderr)
			}
			if _, stdout, _ := w.Run(t, "trust"); stdout != w.URL+"\t(binding sandbar.dev)\ttrusted\n" {
				t.Errorf("the list says %q", stdout)
			}
		})
	}
}

func TestUntrust(t *testing.T) {
	w := newWorld(t)
	if code, stdout, _ := w.Run(t, "untrust"); code != 0 || stdout != w.URL+"\n" {
		t.Fatalf("what is trusted: %d, %q", code, stdout)
	}
	if code, _, stderr := w.Run(t, "untrust", w.URL+"/"); code != 0 {
		t.Fatalf("exit code %d, %s", code, stderr)
	}
	if planes, err := client.Trusted(w.Trust); err != nil || len(planes) != 0 {
		t.Errorf("still trusted: %v, %v", planes, err)
	}
	if code, _, stderr := w.Run(t, "logs", "web"); code != 1 || !strings.Contains(stderr, "sandbar trust") {
		t.Errorf("a call afterwards: %d, %s", code, stderr)
	}
}
