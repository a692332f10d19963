// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package pki makes the certificates of a local cluster: a CA of its own per
// stack, and certificates signed by it. Keys are ECDSA P-256 and live as long as
// the stack; nothing is trusted beyond it.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/sandbar-dev/sandbar/hack/stack/state"
)

// validity is how long certificates last: longer than any stack does.
const validity = 365 * 24 * time.Hour

// Authority signs certificates into one folder.
type Authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// Subject is whom a certificate is for.
type Subject struct {
	// File names the certificate and key files, without their endings.
	File string
	// User and Groups are the Kubernetes identity of a client; User is the
	// common name of a server.
	User   string
	Groups []string
	// Hosts are the DNS names and IP addresses of a server; empty for a client.
	Hosts []string
}

// Open returns the authority of that folder, and makes it when there is none.
func Open(dir string) (*Authority, error) {
	a := &Authority{dir: dir}
	cert, key, err := load(a.Cert("ca"), a.Key("ca"))
	if err == nil {
		a.cert, a.key = cert, key
		return a, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading the CA: %w", err)
	}
	if a.key, err = newKey(); err != nil {
		return nil, err
	}
	template := newTemplate(pkix.Name{CommonName: "sandbar-stack"})
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	if a.cert, err = a.write("ca", template, template, a.key); err != nil {
		return nil, err
	}
	return a, nil
}

// Cert and Key return the paths of a certificate and of its key.
func (a *Authority) Cert(file string) string { return filepath.Join(a.dir, file+".crt") }

// Key returns the path of a key.
func (a *Authority) Key(file string) string { return filepath.Join(a.dir, file+".key") }

// Issue makes a certificate unless there already is one.
func (a *Authority) Issue(s Subject) error {
	if _, _, err := load(a.Cert(s.File), a.Key(s.File)); err == nil {
		return nil
	}
	template := newTemplate(pkix.Name{CommonName: s.User, Organization: s.Groups})
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if len(s.Hosts) > 0 {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	}
	for _, host := range s.Hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	key, err := newKey()
	if err != nil {
		return err
	}
	_, err = a.write(s.File, template, a.cert, key)
	return err
}

// IssueKey makes a bare key pair (for signing service account tokens) unless
// there already is one. The key goes to Key(file), the public half to Cert(file).
func (a *Authority) IssueKey(file string) error {
	if _, err := os.Stat(a.Cert(file)); err == nil {
		return nil
	}
	key, err := newKey()
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return fmt.Errorf("encoding the public key %s: %w", file, err)
	}
	if err := writeKey(a.Key(file), key); err != nil {
		return err
	}
	return state.WriteFile(a.Cert(file), pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}), 0o644)
}

// write signs template with the authority's key and writes certificate and key.
// The key goes first: whoever finds the certificate finds its key.
func (a *Authority) write(file string, template, parent *x509.Certificate, key *ecdsa.PrivateKey) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), a.key)
	if err != nil {
		return nil, fmt.Errorf("signing the certificate %s: %w", file, err)
	}
	if err := writeKey(a.Key(file), key); err != nil {
		return nil, err
	}
	if err := state.WriteFile(a.Cert(file), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644); err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

func newKey() (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generating a key: %w", err)
	}
	return key, nil
}

// serialBits makes serial numbers collide never in practice.
const serialBits = 127

func newTemplate(name pkix.Name) *x509.Certificate {
	limit := new(big.Int).Lsh(big.NewInt(1), serialBits)
	serial, err := rand.Int(rand.Reader, limit)
	if err != nil {
		panic(err) // crypto/rand does not fail on Linux
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      name,
		// An hour back, for clocks that are set while the stack runs.
		NotBefore: now.Add(-time.Hour),
		NotAfter:  now.Add(validity),
	}
}

func writeKey(path string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("encoding %s: %w", path, err)
	}
	return state.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600)
}

func load(certFile, keyFile string) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	certPEM, err := os.ReadFile(certFile)
	if err != nil {
		return nil, nil, err
	}
	keyPEM, err := os.ReadFile(keyFile)
	if err != nil {
		return nil, nil, err
	}
	certBlock, _ := pem.Decode(certPEM)
	keyBlock, _ := pem.Decode(keyPEM)
	if certBlock == nil || keyBlock == nil {
		return nil, nil, fmt.Errorf("%s or its key is not PEM", certFile)
	}
	cert, err := x509.ParseCertificate(certBlock.Bytes)
	if err != nil {
		return nil, nil, err
	}
	key, err := x509.ParsePKCS8PrivateKey(keyBlock.Bytes)
	if err != nil {
		return nil, nil, err
	}
	ec, ok := key.(*ecdsa.PrivateKey)
	if !ok {
		return nil, nil, fmt.Errorf("%s is not an ECDSA key", keyFile)
	}
	return cert, ec, nil
}
