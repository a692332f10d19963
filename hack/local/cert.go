// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package local

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// certificates are the files of a certificate and of the CA that signed it.
type certificates struct{ ca, cert, key string }

// previewHost is what previews are below on this machine. Browsers, and curl, lead every name that
// ends in .localhost to this machine by themselves. They believe no certificate for *.localhost, as
// for no wildcard of a top-level domain.
const previewHost = "preview.localhost"

// newCertificates makes a CA and a serving certificate for this machine's loopback and its previews,
// unless the folder has them. An operator has a real certificate instead.
func newCertificates(dir string) (certificates, error) {
	return issue(certificates{filepath.Join(dir, "ca.crt"), filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")}, &x509.Certificate{
		Subject: pkix.Name{CommonName: "localhost"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames: []string{"localhost", "*." + previewHost}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	})
}

// newClientCertificates makes a CA and a client certificate of a name, unless the folder has them.
func newClientCertificates(dir, name string) (certificates, error) {
	return issue(certificates{filepath.Join(dir, "client-ca.crt"), filepath.Join(dir, "client.crt"), filepath.Join(dir, "client.key")}, &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// covers reports whether the certificate in a file is there, lasts for another day, and has the names
// of leaf: a stack that an earlier checkout made may have fewer.
func (c certificates) covers(leaf *x509.Certificate) bool {
	data, err := os.ReadFile(c.cert)
	if err != nil {
		return false
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return false
	}
	got, err := x509.ParseCertificate(block.Bytes)
	return err == nil && time.Until(got.NotAfter) > 24*time.Hour && slices.Equal(got.DNSNames, leaf.DNSNames)
}

// issue makes a CA and lets it sign leaf, unless the files have that already. The CA's key is nowhere
// afterwards, and it is good for names of this machine alone: who has their browser trust it risks
// nothing else.
func issue(c certificates, leaf *x509.Certificate) (certificates, error) {
	if c.covers(leaf) {
		return c, nil
	}
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return c, err
	}
	ca := &x509.Certificate{
		// Browsers refuse a second certificate of the same issuer and number, so each CA has a name of its own.
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Sandbar local stack " + time.Now().UTC().Format(time.RFC3339Nano)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(1, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		PermittedDNSDomainsCritical: true, PermittedDNSDomains: []string{"localhost"},
		PermittedIPRanges: []*net.IPNet{{IP: net.IPv4(127, 0, 0, 0).To4(), Mask: net.CIDRMask(8, 32)}},
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey)
	if err != nil {
		return c, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return c, err
	}
	leaf.SerialNumber, leaf.NotBefore, leaf.NotAfter = big.NewInt(2), ca.NotBefore, ca.NotAfter
	leaf.KeyUsage = x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, leaf, ca, key.Public(), caKey)
	if err != nil {
		return c, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return c, err
	}
	for _, f := range []struct {
		path, kind string
		der        []byte
	}{{c.ca, "CERTIFICATE", caDER}, {c.key, "PRIVATE KEY", keyDER}, {c.cert, "CERTIFICATE", der}} {
		block := pem.EncodeToMemory(&pem.Block{Type: f.kind, Bytes: f.der})
		if err := os.WriteFile(f.path, block, 0o600); err != nil {
			return c, fmt.Errorf("writing a certificate: %w", err)
		}
	}
	return c, nil
}
