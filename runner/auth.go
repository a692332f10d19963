// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package runner

import (
	"errors"
	"fmt"
	"net/http"

	"golang.org/x/sys/unix"

	"github.com/sandbar-dev/sandbar/pkg/controlproof"
)

// TokenHeader carries the control token, of who does not prove that it has it.
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

// newKey checks a token and returns its key. The token itself is kept nowhere, so that nothing can
// print it. The errors do not contain it.
func newKey(token string) (controlproof.Key, error) {
	if token == "" {
		return controlproof.Key{}, errNoToken
	}
	if len(token) < minTokenBytes || len(token) > maxTokenBytes {
		return controlproof.Key{}, errToken
	}
	for i := range len(token) {
		if token[i] <= ' ' || token[i] > '~' {
			return controlproof.Key{}, errToken
		}
	}
	return controlproof.NewKey(token), nil
}

// guard decides who may call.
type guard struct {
	tokens *tokens
	// verifier checks proofs; nil while the pod's UID is not known, which they are bound to.
	verifier *controlproof.Verifier
}

func newGuard(source Tokens, podUID string) *guard {
	g := &guard{tokens: newTokens(source)}
	if podUID != "" {
		g.verifier = controlproof.NewVerifier(podUID)
	}
	return g
}

// permit returns nil if the request proves that its sender has the token, or presents it; else a
// controlproof.RefusedError. Both, or one of them twice, would leave it to chance which of them
// another reader believes.
func (g *guard) permit(r *http.Request) error {
	presented, proofs := r.Header.Values(TokenHeader), r.Header.Values(controlproof.Header)
	switch {
	case len(presented) == 1 && len(proofs) == 0:
		return g.permitToken(presented[0])
	case len(proofs) == 1 && len(presented) == 0 && g.verifier != nil:
		return g.permitProof(proofs[0], r)
	}
	return controlproof.ErrMissing
}

func (g *guard) permitProof(proof string, r *http.Request) error {
	query := r.URL.RawQuery
	if lost := r.Header.Values(controlproof.QueryHeader); len(lost) == 1 && query == "" {
		query = lost[0]
	}
	if err := g.verifier.Verify(proof, r.Method, r.URL.Path, query, g.tokens.now()); err != nil {
		return err //nolint:wrapcheck // a Refusal
	}
	r.URL.RawQuery = query // the sender's own, by its proof
	return nil
}

func (g *guard) permitToken(presented string) error {
	key := controlproof.NewKey(presented)
	for _, has := range g.tokens.now() {
		if has.Equal(key) {
			return nil
		}
	}
	return controlproof.ErrToken
}

// challenge answers whoever asks who this is. It tells nothing but the names of keys and how long
// the runner has run.
func (g *guard) challenge(w http.ResponseWriter, r *http.Request) error {
	if g.verifier == nil {
		return controlproof.ErrMissing // as every path that a stranger asks for
	}
	c, err := g.verifier.Challenge(r.URL.Query().Get(controlproof.NonceParameter), g.tokens.now())
	if err != nil {
		return malformed("%s must be 16 random bytes in base64url without padding", controlproof.NonceParameter)
	}
	writeJSON(w, http.StatusOK, c)
	return nil
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
