// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package idempotency says what a key is with which a request may be sent twice: the second one gets the
// Sandboxes of the first. The controllers read keys of SandboxClaims, the data plane those of its verb claim.
//
// In: the text of a key. Out: whether it is one, and the value of the label that finds its objects.
package idempotency

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"
)

const (
	// Window is for how long after the creation of its object a key finds it.
	Window = 24 * time.Hour
	// MaxKey is the length of a key in bytes.
	MaxKey = 255
)

// ErrKey means that a text is not a key.
var ErrKey = errors.New("an idempotency key has 1 to 255 characters of printable ASCII, such as a UUID")

// Check returns ErrKey if a text is not a key.
func Check(key string) error {
	if len(key) == 0 || len(key) > MaxKey {
		return ErrKey
	}
	for i := range len(key) {
		if key[i] < ' ' || key[i] > '~' {
			return ErrKey
		}
	}
	return nil
}

// Hash is the value of the label of objects with a key. Keys are longer than labels may be, and have characters that
// labels must not have.
func Hash(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:20])
}
