// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package start

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandbar-dev/sandbar/client"
	"github.com/sandbar-dev/sandbar/client/session"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
)

// newCA is the PEM of a CA that is good for names below the domains, or for all.
func newCA(t *testing.T, name string, below ...string) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, PermittedDNSDomains: below,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// shown is what sandbar trust --browsers says on a system, and the folder of the trust file.
func shown(t *testing.T, goos string, planes ...client.DataPlane) (out, notes, dir string, err error) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "of a person")
	store := session.TrustStore{Path: filepath.Join(dir, "trust.json")}
	for _, plane := range planes {
		if err := store.Add(plane); err != nil {
			t.Fatal(err)
		}
	}
	var stdout, stderr bytes.Buffer
	cmd := &cobra.Command{}
	cmd.SetOut(&stdout)
	cmd.SetErr(&stderr)
	err = (&target{&cli.Target{TrustFile: store.Path}}).showBrowserTrust(cmd, goos)
	return stdout.String(), stderr.String(), dir, err
}

func TestHowABrowserIsMadeToTrustADataPlane(t *testing.T) {
	private := client.DataPlane{URL: "https://sandboxes.example", CABundle: append(newCA(t, "one\x1b[2J"), newCA(t, "two", "sandboxes.example")...)}
	public := client.DataPlane{URL: "https://public.example"}
	for goos, add := range map[string]string{"linux": "certutil -d sql:$HOME/.pki/nssdb -A", "darwin": "security add-trusted-cert", "windows": "certutil -user -addstore Root"} {
		out, _, dir, err := shown(t, goos, private, public)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Count(out, add) != 2 || strings.Contains(out, public.URL) || strings.Contains(out, "\x1b") {
			t.Errorf("on %s it says\n%s", goos, out)
		}
		if goos == "linux" && strings.Count(out, `-d sql:"$PROFILE" `) != 4 {
			t.Errorf("the folder of a Firefox profile is not the person's to give:\n%s", out)
		}
		if strings.ContainsAny(out, "{}") {
			t.Errorf("something is left to be filled in:\n%s", out)
		}
		if !strings.Contains(out, "The owner of its key can be any site") || !strings.Contains(out, "for names below sandboxes.example alone") {
			t.Errorf("it does not say how far a browser then trusts:\n%s", out)
		}
		files := regexp.MustCompile(`'(`+regexp.QuoteMeta(dir)+`/sandbar-[0-9a-f]{8}\.crt)'`).FindAllStringSubmatch(out, -1)
		if len(files) < 2 {
			t.Fatalf("it names no files:\n%s", out)
		}
		for _, file := range files {
			data, err := os.ReadFile(file[1])
			if block, rest := pem.Decode(data); err != nil || block == nil || len(rest) > 0 {
				t.Errorf("%s holds %q, %v", file[1], data, err)
			}
		}
	}
}

func TestBrowsersNeedToTrustNothing(t *testing.T) {
	if _, notes, _, err := shown(t, "linux", client.DataPlane{URL: "https://public.example"}); err != nil || !strings.Contains(notes, "already") {
		t.Errorf("with a public certificate: %q, %v", notes, err)
	}
	if _, _, _, err := shown(t, "linux"); err == nil || !strings.Contains(err.Error(), "run sandbar trust first") {
		t.Errorf("without a data plane: %v", err)
	}
	if _, _, _, err := shown(t, "plan9", client.DataPlane{URL: "https://a.example", CABundle: newCA(t, "a")}); err == nil || !strings.Contains(err.Error(), "plan9") {
		t.Errorf("on another system: %v", err)
	}
}
