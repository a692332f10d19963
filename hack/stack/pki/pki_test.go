// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func open(t *testing.T, dir string) *Authority {
	t.Helper()
	a, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func issue(t *testing.T, a *Authority, s Subject) *x509.Certificate {
	t.Helper()
	if err := a.Issue(s); err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(a.Cert(s.File), a.Key(s.File))
	if err != nil {
		t.Fatal(err)
	}
	return pair.Leaf
}

func TestServerCertificateIsGoodForItsHostsOnly(t *testing.T) {
	a := open(t, t.TempDir())
	cert := issue(t, a, Subject{File: "server", User: "server", Hosts: []string{"10.99.0.2", "kubernetes.default.svc"}})
	roots := x509.NewCertPool()
	roots.AddCert(a.cert)
	for host, good := range map[string]bool{"10.99.0.2": true, "kubernetes.default.svc": true, "10.99.1.2": false, "example.org": false} {
		_, err := cert.Verify(x509.VerifyOptions{Roots: roots, DNSName: host})
		if (err == nil) != good {
			t.Errorf("verified for %s: %v, want good=%t", host, err, good)
		}
	}
	if _, err := cert.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err == nil {
		t.Error("a server's certificate passes for a client's")
	}
}

func TestClientCertificateCarriesUserAndGroups(t *testing.T) {
	a := open(t, t.TempDir())
	cert := issue(t, a, Subject{File: "c", User: "system:node:node", Groups: []string{"system:nodes"}})
	if cert.Subject.CommonName != "system:node:node" {
		t.Errorf("user %q", cert.Subject.CommonName)
	}
	if diff := cmp.Diff([]string{"system:nodes"}, cert.Subject.Organization); diff != "" {
		t.Error(diff)
	}
	roots := x509.NewCertPool()
	roots.AddCert(a.cert)
	if _, err := cert.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		t.Error(err)
	}
}

func TestASecondOpenKeepsAuthorityAndCertificates(t *testing.T) {
	dir := t.TempDir()
	first := open(t, dir)
	before := issue(t, first, Subject{File: "c", User: "u"})
	second := open(t, dir)
	if !first.cert.Equal(second.cert) {
		t.Error("the authority has changed")
	}
	if !issue(t, second, Subject{File: "c", User: "u"}).Equal(before) {
		t.Error("the certificate has changed")
	}
}

func TestKeysAreReadableByTheirOwnerOnly(t *testing.T) {
	a := open(t, t.TempDir())
	issue(t, a, Subject{File: "c", User: "u"})
	if err := a.IssueKey("sa"); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"ca", "c", "sa"} {
		info, err := os.Stat(a.Key(file))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v, want 0600", file, info, err)
		}
	}
}
