// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package develop

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandbar-dev/sandbar/client"
	"github.com/sandbar-dev/sandbar/client/session"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/clitest"
)

// offering is a world in which nothing is trusted yet, and whose binding names the data plane with a hash.
// made counts what was written to the workspace.
func offering(t *testing.T, hash string) (w *world, made func() int) {
	t.Helper()
	w = newWorld(t)
	w.Trust = filepath.Join(t.TempDir(), "trust.json")
	w.Offers(hash)
	return w, func() (n int) {
		for request, count := range w.Requests() {
			if !strings.HasPrefix(request, "GET ") {
				n += count
			}
		}
		return n
	}
}

// dataPlane is that of a world, as somebody has trusted it.
func dataPlane(w *world) client.DataPlane { return client.DataPlane{URL: w.URL, CABundle: w.Bundle} }

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

func TestNothingIsCreatedBeforeTheDataPlaneIsTrusted(t *testing.T) {
	right := clitest.HashOf(newWorld(t).Bundle)
	for name, c := range map[string]struct{ hash, says string }{
		"not trusted":             {right, "is not trusted"},
		"trusted with another CA": {strings.Repeat("ab", 32), "is trusted with another CA"},
	} {
		t.Run(name, func(t *testing.T) {
			w, made := offering(t, c.hash)
			if c.hash != right { // the provider changed its CA after the person had trusted it
				if err := (session.TrustStore{Path: w.Trust}).Add(dataPlane(w)); err != nil {
					t.Fatal(err)
				}
			}
			code, _, stderr := w.Run(t, "dev", "new", t.TempDir(), "--create", "--timeout", "1s")
			if code != cli.ExitFailure || !strings.Contains(stderr, "nothing has been created") || !strings.Contains(stderr, c.says) ||
				!strings.Contains(stderr, "run: sandbar trust "+w.URL) {
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
	right := clitest.HashOf(newWorld(t).Bundle)
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
		a := w.AtTerminal(t, "dev", "new", dir, "--create", "--timeout", "1s")
		clitest.Await(t, a.Screen, "Let it get your token?")
		a.Press(c.answer)
		clitest.Await(t, a.Screen, c.says)
		if c.trusts {
			_ = a.Process.Process.Kill() // dev goes on
		}
		_ = a.Process.Wait()
		planes, err := session.TrustStore{Path: w.Trust}.Load()
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
	right := clitest.HashOf(newWorld(t).Bundle)
	w, _ := offering(t, right)
	plane := dataPlane(w)
	plane.CABundle = aCA(t)
	if err := (session.TrustStore{Path: w.Trust}).Add(plane); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"logs", "web"}, {"logs", "web", "-f"}, {"exec", "web", "--", "true"}} {
		_, _, stderr := w.Run(t, args...)
		if !strings.Contains(stderr, "has another CA than the one that you trusted") || !strings.Contains(stderr, "run: sandbar trust "+w.URL) {
			t.Errorf("%v: %s", args, stderr)
		}
	}
}
