// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package credential

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Token is what a ServiceAccount's token says of itself. Its signature is not verified: the token
// is our own, and only its server trusts it.
type Token struct {
	// Namespace, Name and UID are the ServiceAccount's.
	Namespace, Name, UID string
	// Issued and Expires bound its life. Expires is zero for one that never ends.
	Issued, Expires time.Time
}

var errNoToken = errors.New("not the token of a ServiceAccount")

// Parse reads a token.
func Parse(token string) (Token, error) {
	parts := strings.Split(strings.TrimSpace(token), ".")
	if len(parts) != 3 {
		return Token{}, errNoToken
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return Token{}, errNoToken
	}
	var claims struct {
		Subject    string `json:"sub"`
		Issued     int64  `json:"iat"`
		Expires    int64  `json:"exp"`
		Kubernetes struct {
			ServiceAccount struct {
				UID string `json:"uid"`
			} `json:"serviceaccount"`
		} `json:"kubernetes.io"`
	}
	if err := json.Unmarshal(raw, &claims); err != nil {
		return Token{}, errNoToken
	}
	account, ok := strings.CutPrefix(claims.Subject, "system:serviceaccount:")
	namespace, name, both := strings.Cut(account, ":")
	if !ok || !both {
		return Token{}, errNoToken
	}
	t := Token{Namespace: namespace, Name: name, UID: claims.Kubernetes.ServiceAccount.UID}
	if claims.Issued > 0 {
		t.Issued = time.Unix(claims.Issued, 0)
	}
	if claims.Expires > 0 {
		t.Expires = time.Unix(claims.Expires, 0)
	}
	return t, nil
}

// Read reads the token in a file.
func Read(file string) (Token, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return Token{}, err
	}
	t, err := Parse(string(raw))
	if err != nil {
		return Token{}, fmt.Errorf("%s: %w", file, err)
	}
	return t, nil
}

// Lifetime is how long the token was given for.
func (t Token) Lifetime() time.Duration { return t.Expires.Sub(t.Issued) }

// maxAge is the age at which a token is renewed, however long it lasts.
const maxAge = 24 * time.Hour

// Due is when the token is to be renewed: after a third of its life or a day. Two thirds are left for
// a process that is down, or a server that is.
func (t Token) Due() time.Time { return t.Issued.Add(min(t.Lifetime()/3, maxAge)) }

// WriteFile writes a file that only its owner may read, through a temporary one, so that a reader
// never sees half of it and the mode is right from the first byte on.
func WriteFile(path string, content []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // which makes it 0600
	if err != nil {
		return err
	}
	// After the rename there is nothing to remove, before it nothing to keep.
	defer func() { _ = os.Remove(f.Name()) }()
	if _, err := f.Write(content); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
