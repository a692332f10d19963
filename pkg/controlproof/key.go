// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package controlproof

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"hash"
	"log/slog"
)

// The first part of what is sealed says what it is: no MAC of one kind can be taken for another.
const (
	purposeKey       = "sandbar control key v1"
	purposeID        = "sandbar control key id v1"
	purposeChallenge = "sandbar control challenge v1"
	purposeProof     = "sandbar control proof v1"
)

// Key is what proofs are made with: a control token, hashed. It prints as nothing; behind a pointer,
// because package fmt does not call the methods of values in unexported fields.
type Key struct {
	id     string
	secret *[sha256.Size]byte
}

// NewKey returns the key of a control token.
func NewKey(token string) Key {
	secret := new([sha256.Size]byte)
	mac(secret[:0], []byte(token), purposeKey)
	var id [sha256.Size]byte
	mac(id[:0], secret[:], purposeID)
	return Key{id: hex.EncodeToString(id[:8]), secret: secret}
}

// ID names the key. It tells nothing of the token, and who knows it can do nothing.
func (k Key) ID() string { return k.id }

// IsZero reports whether there is no key.
func (k Key) IsZero() bool { return k.secret == nil }

// Equal reports whether two keys are of one token, in a time that does not depend on it.
func (k Key) Equal(other Key) bool {
	if k.IsZero() || other.IsZero() {
		return false
	}
	return subtle.ConstantTimeCompare(k.secret[:], other.secret[:]) == 1
}

// String keeps the key out of what is printed.
func (Key) String() string { return "[redacted]" }

// GoString does the same for %#v.
func (Key) GoString() string { return "[redacted]" }

// LogValue does the same for logs.
func (Key) LogValue() slog.Value { return slog.StringValue("[redacted]") }

// mac appends the MAC of fields. None of them but the last may hold a line break.
func mac(to, key []byte, fields ...string) []byte {
	h := hmac.New(sha256.New, key)
	for i, field := range fields {
		if i > 0 {
			write(h, "\n")
		}
		write(h, field)
	}
	return h.Sum(to)
}

// write hashes a text. A hash never returns an error.
func write(h hash.Hash, text string) { _, _ = h.Write([]byte(text)) }

const (
	nonceBytes = 16
	// nonceLength and macLength are those of the encoded forms.
	nonceLength = (nonceBytes*8 + 5) / 6
	macLength   = (sha256.Size*8 + 5) / 6
)

var encoding = base64.RawURLEncoding.Strict()

type nonce [nonceBytes]byte

func (n nonce) String() string { return encoding.EncodeToString(n[:]) }

func newNonce() (n nonce) {
	_, _ = rand.Read(n[:]) // never fails: crypto/rand ends the process instead
	return n
}

func parseNonce(text string) (n nonce, ok bool) {
	if len(text) != nonceLength {
		return n, false
	}
	_, err := encoding.Decode(n[:], []byte(text))
	return n, err == nil
}

// NewNonce returns a random nonce, to ask for a challenge with.
func NewNonce() string { return newNonce().String() }
