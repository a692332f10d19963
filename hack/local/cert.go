// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

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
	"time"
)

// certificates are the files of a certificate and of the CA that signed it.
type certificates struct{ ca, cert, key string }

// newCertificates makes a CA and a serving certificate for this machine's loopback, unless the
// folder has them. An operator has a real certificate instead.
func newCertificates(dir string) (certificates, error) {
	return issue(certificates{filepath.Join(dir, "ca.crt"), filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")}, &x509.Certificate{
		Subject: pkix.Name{CommonName: "localhost"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	})
}

// newClientCertificates makes a CA and a client certificate of a name, unless the folder has them.
func newClientCertificates(dir, name string) (certificates, error) {
	return issue(certificates{filepath.Join(dir, "client-ca.crt"), filepath.Join(dir, "client.crt"), filepath.Join(dir, "client.key")}, &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

func issue(c certificates, leaf *x509.Certificate) (certificates, error) {
	if _, err := os.Stat(c.cert); err == nil {
		return c, nil
	}
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return c, err
	}
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Sandbar local stack"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(1, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
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
