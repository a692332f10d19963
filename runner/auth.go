// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"

	"golang.org/x/sys/unix"
)

// TokenHeader carries the control token.
const TokenHeader = "X-Sandbox-Control-Token" //nolint:gosec // a header's name

// minTokenBytes and maxTokenBytes bound the token. Sixteen characters are the
// least that cannot be guessed at the rate at which the runner answers.
const (
	minTokenBytes = 16
	maxTokenBytes = 4096
)

var (
	errNoToken = errors.New("there is no control token; the runner does not start without one")
	errToken   = fmt.Errorf("the control token must have %d to %d printable ASCII characters and no spaces",
		minTokenBytes, maxTokenBytes)
)

// TokenHash stands for a token. The token itself is kept nowhere, so that nothing
// can print it, and hashes have one length, so that comparing them tells nothing
// of the token's.
type TokenHash [sha256.Size]byte

// HashToken checks a token and returns its hash. Its errors do not contain the
// token.
func HashToken(token string) (TokenHash, error) {
	if token == "" {
		return TokenHash{}, errNoToken
	}
	if len(token) < minTokenBytes || len(token) > maxTokenBytes {
		return TokenHash{}, errToken
	}
	for i := range len(token) {
		if token[i] <= ' ' || token[i] > '~' {
			return TokenHash{}, errToken
		}
	}
	return sha256.Sum256([]byte(token)), nil
}

// permits tells whether the request presents the token, once. A second header
// would leave it to chance which of them another reader believes.
func (t TokenHash) permits(r *http.Request) bool {
	values := r.Header.Values(TokenHeader)
	if len(values) != 1 {
		return false
	}
	presented := sha256.Sum256([]byte(values[0]))
	return subtle.ConstantTimeCompare(presented[:], t[:]) == 1
}

// HideMemory keeps processes of the same user from reading this process's memory
// and its /proc/PID/environ, which shows the environment that the process was
// started with, whatever was unset later. It does not outlast exec: the app is a
// process like any other.
func HideMemory() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("making the process undumpable: %w", err)
	}
	return nil
}
