// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"io"
	"maps"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/sandbar-dev/sandbar/dataplane/access"
	"github.com/sandbar-dev/sandbar/dataplane/preview"
)

// authority is a CA for client certificates.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: rand.Text()}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return authority{t, cert, key}
}

func (a authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// client issues a client certificate.
func (a authority) client(name string, usage x509.ExtKeyUsage, notAfter time.Time) tls.Certificate {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, NotAfter: notAfter, ExtKeyUsage: []x509.ExtKeyUsage{usage},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// newFrontWorld is a data plane with TLS that believes front proxies of a CA.
func newFrontWorld(t *testing.T, ca authority, changes ...func(*setup)) (w *world, caFile string) {
	t.Helper()
	dir := t.TempDir()
	cert, key, caFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"), filepath.Join(dir, "front.crt")
	writeCertificate(t, cert, key, 1)
	if err := os.WriteFile(caFile, ca.pem(), 0o600); err != nil {
		t.Fatal(err)
	}
	w = newWorld(t, recorder(), append([]func(*setup){func(s *setup) {
		s.opts.Insecure, s.opts.CertFile, s.opts.KeyFile = false, cert, key
		s.opts.RequestHeader = access.RequestHeader{ClientCAFile: caFile, AllowedNames: []string{"front-proxy", "other-proxy"}}
	}}, changes...)...)
	w.watched()
	return w, caFile
}

// as sends a request with a client certificate, over a protocol.
func (w *world) as(certificate *tls.Certificate, protocol, path string, header http.Header) (*http.Response, string) {
	w.t.Helper()
	config := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{protocol}}
	if certificate != nil {
		// Not Certificates: that would hold back what the server's list of CAs does not name.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return certificate, nil }
	}
	transport := &http.Transport{ForceAttemptHTTP2: true, DisableKeepAlives: true, TLSClientConfig: config}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequest(http.MethodGet, strings.Replace(w.url, "http:", "https:", 1)+path, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header, req.Host = header, header.Get("Host")
	res, err := transport.RoundTrip(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return res, string(body)
}

func TestOnlyAFrontProxyOfTheCAIsBelieved(t *testing.T) {
	ca, foreign := newAuthority(t), newAuthority(t)
	w, _ := newFrontWorld(t, ca)
	w.kcp.grant("user:alice", "get sandboxrunners", "get sandboxrunners/log")
	later := time.Now().Add(time.Hour)
	certificate := func(from authority, name string, usage x509.ExtKeyUsage, notAfter time.Time) *tls.Certificate {
		c := from.client(name, usage, notAfter)
		return &c
	}
	front := certificate(ca, "front-proxy", x509.ExtKeyUsageClientAuth, later)
	alice := http.Header{"X-Remote-User": {"alice"}}
	with := func(key, value string) http.Header {
		h := maps.Clone(alice)
		h[key] = []string{value}
		return h
	}
	for name, c := range map[string]struct {
		certificate *tls.Certificate
		header      http.Header
		code        int
	}{
		"a front proxy":                                  {front, alice, 200},
		"another allowed name":                           {certificate(ca, "other-proxy", x509.ExtKeyUsageClientAuth, later), alice, 200},
		"the headers in other case":                      {front, http.Header{"x-remote-USER": {"alice"}}, 200},
		"no certificate":                                 {nil, alice, 401},
		"a name that is not allowed":                     {certificate(ca, "somebody", x509.ExtKeyUsageClientAuth, later), alice, 401},
		"another CA":                                     {certificate(foreign, "front-proxy", x509.ExtKeyUsageClientAuth, later), alice, 401},
		"a certificate of a server":                      {certificate(ca, "front-proxy", x509.ExtKeyUsageServerAuth, later), alice, 401},
		"a certificate that has expired":                 {certificate(ca, "front-proxy", x509.ExtKeyUsageClientAuth, time.Now().Add(-time.Minute)), alice, 401},
		"a front proxy that names nobody":                {front, http.Header{}, 401},
		"a front proxy that passes a token on":           {front, http.Header{"Authorization": {"Bearer " + adminToken}}, 200},
		"the name goes before a token":                   {front, http.Header{"X-Remote-User": {"stranger"}, "Authorization": {"Bearer " + adminToken}}, 403},
		"a token is worth the same beside a false name":  {nil, with("Authorization", "Bearer "+adminToken), 200},
		"a wrong certificate takes nothing from a token": {certificate(foreign, "front-proxy", x509.ExtKeyUsageClientAuth, later), with("Authorization", "Bearer "+adminToken), 200},
		"impersonation is not for front proxies":         {front, http.Header{"Impersonate-User": {"alice"}}, 401},
	} {
		for _, protocol := range []string{"http/1.1", "h2"} {
			t.Run(name+" over "+protocol, func(t *testing.T) {
				res, body := w.as(c.certificate, protocol, demo+"log", maps.Clone(c.header))
				if res.StatusCode != c.code {
					t.Fatalf("got %d %s, want %d", res.StatusCode, body, c.code)
				}
				if c.code != http.StatusOK {
					return
				}
				var got received
				if err := json.Unmarshal([]byte(body), &got); err != nil {
					t.Fatal(err)
				}
				for header := range got.Header {
					if strings.HasPrefix(header, "X-Remote-") || header == "Authorization" {
						t.Errorf("the pod got %s", header)
					}
				}
			})
		}
	}
}

// Scopes are in extra keys: a review without them would give a scoped user more than it has.
func TestAReviewCarriesWhatTheFrontProxySaysOfTheCaller(t *testing.T) {
	ca := newAuthority(t)
	w, _ := newFrontWorld(t, ca)
	w.kcp.grant("user:alice", "*")
	certificate := ca.client("front-proxy", x509.ExtKeyUsageClientAuth, time.Now().Add(time.Hour))
	res, body := w.as(&certificate, "http/1.1", demo+"log", http.Header{
		"X-Remote-User": {"alice"}, "X-Remote-Uid": {"u-1"}, "X-Remote-Group": {"team-a", "team-b"},
		"X-Remote-Extra-Authentication.kcp.io%2fscopes": {"cluster:cluster1", "cluster:other"},
	})
	if res.StatusCode != http.StatusOK {
		t.Fatalf("got %d %s", res.StatusCode, body)
	}
	w.kcp.mu.Lock()
	defer w.kcp.mu.Unlock()
	if len(w.kcp.virtual.reviewed) != 2 {
		t.Fatalf("kcp was asked %d reviews, want one of the verb and one of the instance", len(w.kcp.virtual.reviewed))
	}
	subresources := map[string]bool{}
	for _, got := range w.kcp.virtual.reviewed {
		subresource := got.ResourceAttributes.Subresource
		subresources[subresource] = true
		want := authorizationv1.SubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Group: "sandbar.dev", Version: "v1alpha1", Resource: "sandboxrunners", Subresource: subresource, Namespace: "default", Name: "demo", Verb: "get",
			},
			User: "alice", UID: "u-1", Groups: []string{"team-a", "team-b", "system:authenticated"},
			Extra: map[string]authorizationv1.ExtraValue{"authentication.kcp.io/scopes": {"cluster:cluster1", "cluster:other"}},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("asked about another (-want +got):\n%s", diff)
		}
	}
	if !subresources[""] || !subresources["log"] {
		t.Errorf("asked about the subresources %v", subresources)
	}
}

// Headers that an operator has named are identities like X-Remote-*: a pod gets them from nobody.
func TestHeadersThatNameTheCallerEndHere(t *testing.T) {
	ca := newAuthority(t)
	w, _ := newFrontWorld(t, ca, func(s *setup) {
		s.opts.RequestHeader.UsernameHeaders, s.opts.RequestHeader.UIDHeaders = []string{"X-Hub-User"}, []string{"X-Hub-Uid"}
		s.opts.RequestHeader.GroupHeaders, s.opts.RequestHeader.ExtraHeaderPrefixes = []string{"X-Hub-Group"}, []string{"X-Hub-Extra-"}
	})
	w.kcp.grant("user:alice", "get sandboxrunners", "get sandboxrunners/log")
	certificate := ca.client("front-proxy", x509.ExtKeyUsageClientAuth, time.Now().Add(time.Hour))
	named := http.Header{"X-Hub-User": {"alice"}, "X-Hub-Uid": {"u"}, "X-Hub-Group": {"team"}, "X-Hub-Extra-Scopes": {"x"}, "X-Hub-Other": {"kept"}}
	forged := maps.Clone(named)
	forged["X-Hub-User"], forged["Authorization"] = []string{"system:admin"}, []string{"Bearer " + adminToken}
	for name, c := range map[string]struct {
		certificate *tls.Certificate
		header      http.Header
	}{"from a front proxy": {&certificate, named}, "from anybody": {nil, forged}} {
		t.Run(name, func(t *testing.T) {
			res, body := w.as(c.certificate, "http/1.1", demo+"log", c.header)
			var got received
			if err := json.Unmarshal([]byte(body), &got); err != nil || res.StatusCode != http.StatusOK {
				t.Fatalf("got %d %s (%v)", res.StatusCode, body, err)
			}
			for header := range got.Header {
				if strings.HasPrefix(header, "X-Hub-") && header != "X-Hub-Other" {
					t.Errorf("the pod got %s", header)
				}
			}
			if got.Header.Get("X-Hub-Other") == "" {
				t.Error("the pod lacks a header that names nobody")
			}
		})
	}
}

func TestHeadersThatNameTheCallerEndAtPreviewsToo(t *testing.T) {
	caFile := filepath.Join(t.TempDir(), "front.crt")
	if err := os.WriteFile(caFile, newAuthority(t).pem(), 0o600); err != nil {
		t.Fatal(err)
	}
	w := newPreviewWorld(t, recorder(), overTLS(t), func(s *setup) {
		s.opts.RequestHeader = access.RequestHeader{
			ClientCAFile: caFile, UsernameHeaders: []string{"X-Hub-User"}, UIDHeaders: []string{"X-Hub-Uid"},
			GroupHeaders: []string{"X-Hub-Group"}, ExtraHeaderPrefixes: []string{"X-Hub-Extra-"},
		}
	})
	_, body := w.as(nil, "http/1.1", "/", http.Header{
		"Host": {previewHost}, "Cookie": {preview.CookieName + "=" + sealed(t, preview.Session, previewHost, nil)},
		"X-Hub-User": {"system:admin"}, "X-Hub-Uid": {"u"}, "X-Hub-Group": {"team"}, "X-Hub-Extra-Scopes": {"x"}, "X-Hub-Other": {"kept"},
	})
	got := pod(t, body).Header
	for header := range got {
		if strings.HasPrefix(header, "X-Hub-") && header != "X-Hub-Other" {
			t.Errorf("the app got %s", header)
		}
	}
	if got.Get("X-Hub-Other") == "" {
		t.Error("the app lacks a header that names nobody")
	}
}

func TestACAThatIsTakenOutCountsNoLonger(t *testing.T) {
	ca, next := newAuthority(t), newAuthority(t)
	w, caFile := newFrontWorld(t, ca)
	w.kcp.grant("user:alice", "*")
	certificate := ca.client("front-proxy", x509.ExtKeyUsageClientAuth, time.Now().Add(time.Hour))
	alice := http.Header{"X-Remote-User": {"alice"}}
	if res, body := w.as(&certificate, "http/1.1", demo+"log", maps.Clone(alice)); res.StatusCode != http.StatusOK {
		t.Fatalf("got %d %s", res.StatusCode, body)
	}
	if err := os.WriteFile(caFile, next.pem(), 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the old CA counts no longer", func() bool {
		res, _ := w.as(&certificate, "http/1.1", demo+"log", maps.Clone(alice))
		return res.StatusCode == http.StatusUnauthorized
	})
}

// Without a CA nothing is asked of a TLS client, and nobody is believed.
func TestWithoutACANobodyIsBelieved(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	writeCertificate(t, cert, key, 1)
	w := newWorld(t, recorder(), func(s *setup) { s.opts.Insecure, s.opts.CertFile, s.opts.KeyFile = false, cert, key })
	w.kcp.grant("user:alice", "*")
	certificate := newAuthority(t).client("front-proxy", x509.ExtKeyUsageClientAuth, time.Now().Add(time.Hour))
	asked := false
	config := &tls.Config{InsecureSkipVerify: true, GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		asked = true
		return &certificate, nil
	}}
	conn, err := tls.Dial("tcp", strings.TrimPrefix(w.url, "http://"), config)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	if res, body := w.as(&certificate, "http/1.1", demo+"log", http.Header{"X-Remote-User": {"alice"}}); res.StatusCode != http.StatusUnauthorized || asked {
		t.Errorf("got %d %s, asked for a certificate: %t", res.StatusCode, body, asked)
	}
}
