// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/sandbar-dev/sandbar/client"
)

func hashOf(bundle []byte) string {
	sum := sha256.Sum256(bundle)
	return hex.EncodeToString(sum[:])
}

// offering is a workspace whose one binding names a data plane.
func offering(t *testing.T, address, hash string) *rest.Config {
	t.Helper()
	workspace := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBindingList", "items": []any{
			map[string]any{"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding", "metadata": map[string]any{"name": "other"}},
			map[string]any{
				"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding",
				"metadata": map[string]any{"name": "sandbar.dev", "annotations": map[string]any{"extra.apis.kcp.io/dataplane-url": address, "extra.apis.kcp.io/dataplane-ca-sha256": hash}},
				"status":   map[string]any{"boundResources": []any{map[string]any{"group": "sandbar.dev", "resource": "sandboxrunners"}}},
			},
		}})
	}))
	t.Cleanup(workspace.Close)
	return &rest.Config{Host: workspace.URL, BearerToken: token, TLSClientConfig: rest.TLSClientConfig{CAData: certificateOf(workspace)}}
}

// TestABundleCountsOnlyByTheHashOfTheBinding: whatever is between a client and its data plane, the client gets
// the bundle that its workspace names or none, and gives its token to nobody on the way.
func TestABundleCountsOnlyByTheHashOfTheBinding(t *testing.T) {
	var answer http.HandlerFunc
	plane := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Error("the token was sent before the data plane was verified")
		}
		answer(w, r)
	}))
	defer plane.Close()
	own := certificateOf(plane)
	another := []byte(strings.Replace(string(own), "\n", "\r\n", 1)) // the same certificate in other bytes
	gives := func(bundle []byte) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/dataplane/ca" {
				t.Errorf("asked for %s", r.URL.Path)
			}
			_, _ = w.Write(bundle)
		}
	}
	foreign := aCA(t) // right by its hash, of a server that has no certificate of it

	for name, c := range map[string]struct {
		answer  http.HandlerFunc
		address string
		hash    string
		change  func(*rest.Config)
		fails   string
	}{
		"the bundle that the binding names": {answer: gives(own), hash: hashOf(own)},
		"a hash in capital letters":         {answer: gives(own), hash: strings.ToUpper(hashOf(own))},
		"no hash, for a public certificate": {hash: ""},
		"another bundle": {
			answer: gives(another), hash: hashOf(own),
			fails: "expected SHA-256 " + hashOf(own) + ", found " + hashOf(another),
		},
		"no bundle at all":                          {answer: gives(nil), hash: hashOf(own), fails: "found no bundle"},
		"the right bundle from somebody in between": {answer: gives(foreign), hash: hashOf(foreign), fails: "not one of the CA"},
		"a bundle without a certificate":            {answer: gives([]byte("x")), hash: hashOf([]byte("x")), fails: "holds no PEM certificate"},
		"a bundle without an end": {answer: func(w http.ResponseWriter, _ *http.Request) {
			for range 1<<10 + 1 {
				_, _ = w.Write(make([]byte, 1024))
			}
		}, hash: hashOf(own), fails: "more than 1048576 bytes"},
		"a redirect": {
			answer: http.RedirectHandler("https://elsewhere.invalid/", http.StatusFound).ServeHTTP, hash: hashOf(own),
			fails: "answers 302",
		},
		"a hash from a workspace that nothing verifies": {
			answer: gives(own), hash: hashOf(own), fails: "a workspace that is not verified itself",
			change: func(cfg *rest.Config) { cfg.TLSClientConfig = rest.TLSClientConfig{Insecure: true} },
		},
		"an address that looks like another": {address: "https://pl\u0430ne.example.com", hash: hashOf(own), fails: "other signs than those of ASCII"},
		"an address without TLS":             {address: "http://plane.example.com", hash: hashOf(own), fails: "is not an https URL"},
	} {
		t.Run(name, func(t *testing.T) {
			answer = c.answer
			address := c.address
			if address == "" {
				address = plane.URL
			}
			cfg := offering(t, address, c.hash)
			if c.change != nil {
				c.change(cfg)
			}
			offers, err := client.Offers(t.Context(), cfg)
			if err != nil || len(offers) != 1 || !offers[0].Serves(client.SandboxRunners.GroupResource()) {
				t.Fatalf("offers %+v, %v", offers, err)
			}
			got, err := offers[0].DataPlane(t.Context())
			if c.fails != "" {
				if err == nil || !strings.Contains(err.Error(), c.fails) {
					t.Errorf("got %v, want an error with %q", err, c.fails)
				}
				return
			}
			if err != nil || got.URL != plane.URL || c.hash != "" && string(got.CABundle) != string(own) {
				t.Errorf("got %s with %q, %v", got.URL, got.CABundle, err)
			}
		})
	}
}

// aCA is the PEM bundle of a CA that has signed nothing.
func aCA(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// A CA that has changed is nothing that passes by itself.
func TestACertificateThatIsNotVerifiedIsNotTriedAgain(t *testing.T) {
	err := fmt.Errorf("calling log: %w", &tls.CertificateVerificationError{Err: errors.New("unknown authority")})
	if client.Temporary(err) {
		t.Error("a certificate that is not verified is tried again for ever")
	}
	if !client.Temporary(errors.New("connection reset")) || client.Temporary(context.Canceled) {
		t.Error("other errors are judged otherwise than before")
	}
}

func TestADataPlaneIsItsOrigin(t *testing.T) {
	plane := client.DataPlane{URL: "https://Plane.example.com/hub"}
	for address, want := range map[string]bool{
		"https://plane.example.com:443": true, "https://plane.example.com/": true, "https://plane.example.com:8443": false,
		"http://plane.example.com": false, "https://plane.example.com.evil.example": false, "": false,
	} {
		if plane.Is(address) != want {
			t.Errorf("%q: %v", address, !want)
		}
	}
}
