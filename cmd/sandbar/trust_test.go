// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandbar-dev/sandbar/client"
	"github.com/sandbar-dev/sandbar/client/session"
)

// offering is a world in which nothing is trusted yet, and whose binding names the data plane with a hash.
// made counts what was written to the workspace.
func offering(t *testing.T, hash string) (w *world, made func() int) {
	t.Helper()
	w = newWorld(t)
	w.trust = filepath.Join(t.TempDir(), "trust.json")
	w.offers(hash)
	return w, func() (n int) {
		for request, count := range w.requests() {
			if !strings.HasPrefix(request, "GET ") {
				n += count
			}
		}
		return n
	}
}

// dataPlane is that of a world, as somebody has trusted it.
func dataPlane(w *world) client.DataPlane { return client.DataPlane{URL: w.url, CABundle: w.bundle} }

// aCA is the PEM bundle of a CA that has signed nothing.
func aCA(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func TestTrustTakesTheCAThatTheBindingNamesInOneStep(t *testing.T) {
	bundle := newWorld(t).bundle // each server of package httptest has the same certificate
	for name, args := range map[string][]string{"with the URL": {"trust"}, "without": {"trust", "--yes"}} {
		t.Run(name, func(t *testing.T) {
			w, _ := offering(t, hashOf(bundle))
			if len(args) == 1 {
				args = append(args, w.url+"/")
			}
			code, _, stderr := w.run(t, args...)
			if code != 0 || !strings.Contains(stderr, "has the SHA-256 that the binding sandbar.dev names, "+hashOf(bundle)) {
				t.Fatalf("exit code %d, %s", code, stderr)
			}
			w.serve(func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write([]byte("hello\n")) })
			if code, stdout, stderr := w.run(t, "logs", "web"); code != 0 || stdout != "hello\n" {
				t.Errorf("a call afterwards: %d, %q, %q", code, stdout, stderr)
			}
			if _, stdout, _ := w.run(t, "trust"); stdout != w.url+"\t(binding sandbar.dev)\ttrusted\n" {
				t.Errorf("the list says %q", stdout)
			}
		})
	}
}

// A CA bundle that is not the one that the workspace names is refused with both hashes, and nothing is stored.
func TestTrustRefusesAnotherCA(t *testing.T) {
	expected := strings.Repeat("ab", 32)
	w, _ := offering(t, expected)
	for _, args := range [][]string{{"trust", w.url}, {"trust", "--yes"}} {
		code, _, stderr := w.run(t, args...)
		if code != exitFailure || !strings.Contains(stderr, "expected SHA-256 "+expected+", found "+hashOf(w.bundle)) {
			t.Errorf("%v: exit code %d, %s", args, code, stderr)
		}
	}
	// The same with the port written out: it is the same data plane.
	bundle := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(bundle, w.bundle, 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := w.run(t, "trust", strings.Replace(w.url, "https", "HTTPS", 1), "--ca-file", bundle); code != exitFailure || !strings.Contains(stderr, "expected SHA-256") {
		t.Errorf("with --ca-file: exit code %d, %s", code, stderr)
	}
	if _, err := os.Stat(w.trust); !os.IsNotExist(err) {
		t.Errorf("something is stored: %v", err)
	}
}

func TestNothingIsCreatedBeforeTheDataPlaneIsTrusted(t *testing.T) {
	right := hashOf(newWorld(t).bundle)
	for name, c := range map[string]struct{ hash, says string }{
		"not trusted":             {right, "is not trusted"},
		"trusted with another CA": {strings.Repeat("ab", 32), "is trusted with another CA"},
	} {
		t.Run(name, func(t *testing.T) {
			w, made := offering(t, c.hash)
			if c.hash != right { // the provider changed its CA after the person had trusted it
				if err := (session.TrustStore{Path: w.trust}).Add(dataPlane(w)); err != nil {
					t.Fatal(err)
				}
			}
			code, _, stderr := w.run(t, "dev", "new", t.TempDir(), "--create", "--timeout", "1s")
			if code != exitFailure || !strings.Contains(stderr, "nothing has been created") || !strings.Contains(stderr, c.says) ||
				!strings.Contains(stderr, "run: sandbar trust "+w.url) {
				t.Errorf("exit code %d, %s", code, stderr)
			}
			if n := made(); n != 0 {
				t.Errorf("%d objects were written", n)
			}
		})
	}
}

// At a terminal the person is asked, and only yes is yes.
func TestAtATerminalTheOfferIsAQuestion(t *testing.T) {
	right := hashOf(newWorld(t).bundle)
	w, made := offering(t, right)
	dir := t.TempDir()
	for _, c := range []struct {
		answer, says string
		trusts       bool
	}{
		{"\r", "nothing has been created", false},
		{"n\r", "nothing has been created", false},
		{"yes\r", "may get your token from now on", true},
	} {
		a := w.atTerminal(t, "dev", "new", dir, "--create", "--timeout", "1s")
		await(t, a.screen, "Let it get your token?")
		a.press(c.answer)
		await(t, a.screen, c.says)
		if c.trusts {
			_ = a.process.Process.Kill() // dev goes on
		}
		_ = a.process.Wait()
		planes, err := session.TrustStore{Path: w.trust}.Load()
		if err != nil || (len(planes) == 1) != c.trusts {
			t.Errorf("%q: %d are trusted, %v", c.answer, len(planes), err)
		}
		if !c.trusts && made() != 0 {
			t.Errorf("%q: something was created", c.answer)
		}
	}
}

// The provider's CA has changed: a person is told that, and what to do, at once and not with every try.
func TestACAThatHasChangedIsNamed(t *testing.T) {
	right := hashOf(newWorld(t).bundle)
	w, _ := offering(t, right)
	plane := dataPlane(w)
	plane.CABundle = aCA(t)
	if err := (session.TrustStore{Path: w.trust}).Add(plane); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"logs", "web"}, {"logs", "web", "-f"}, {"exec", "web", "--", "true"}} {
		_, _, stderr := w.run(t, args...)
		if !strings.Contains(stderr, "has another CA than the one that you trusted") || !strings.Contains(stderr, "run: sandbar trust "+w.url) {
			t.Errorf("%v: %s", args, stderr)
		}
	}
}

func TestOnlyWhatAnswersAsADataPlaneIsTrusted(t *testing.T) {
	w := newWorld(t)
	bundle := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(bundle, w.bundle, 0o600); err != nil {
		t.Fatal(err)
	}
	site := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(site.Close)
	ofSite := filepath.Join(t.TempDir(), "site.pem")
	if err := os.WriteFile(ofSite, certificateOf(site), 0o600); err != nil {
		t.Fatal(err)
	}
	before, _ := os.ReadFile(w.trust)
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"a port on which nobody answers": {[]string{"https://127.0.0.1:1", "--ca-file", bundle}, "connection refused"},
		"a site that is no data plane":   {[]string{site.URL, "--ca-file", ofSite}, "is no data plane of Sandbar"},
		"a certificate of an unknown CA": {[]string{w.url}, "certificate"},
		"the data plane by another name": {[]string{strings.Replace(w.url, "127.0.0.1", "localhost", 1), "--ca-file", bundle}, "certificate"},
	} {
		code, _, stderr := w.run(t, append([]string{"trust"}, c.args...)...)
		after, _ := os.ReadFile(w.trust)
		if code != exitFailure || !strings.Contains(stderr, c.says) || string(after) != string(before) {
			t.Errorf("%s: exit code %d, %q", name, code, stderr)
		}
	}
	if code, _, stderr := w.run(t, "trust", "https://127.0.0.1:1", "--ca-file", bundle, "--no-check"); code != 0 {
		t.Errorf("unseen: exit code %d, %q", code, stderr)
	}
}
