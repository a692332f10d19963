// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package controlproof

import (
	"errors"
	"strings"
)

const (
	// Header carries the proof of a request.
	Header = "X-Sandbox-Control-Proof"
	// QueryHeader carries the query of a request whose own one gets lost on the way: the API
	// server's proxy drops that of upgrades. It counts only where the query is missing, and under
	// a proof, which is made for it.
	QueryHeader = "X-Sandbox-Control-Query"
	// RefusedHeader is on the 401 of a control server and holds why it refused: the text of a
	// [RefusedError].
	RefusedHeader = "X-Sandbox-Control-Refused"

	// PodUIDVariable is the environment variable by which a control server is told the UID of its
	// pod, from metadata.uid. A client that reads the pod's spec sees by it that the server takes
	// proofs, and need never send it the token.
	PodUIDVariable = "SANDBAR_POD_UID"

	version = "v1"
)

// RefusedError is why a control server refuses a request.
type RefusedError string

// Refusals.
const (
	// ErrMissing: neither a token nor a proof, or more than one of both.
	ErrMissing RefusedError = "missing"
	// ErrToken: another token.
	ErrToken RefusedError = "token"
	// ErrMalformed: no proof of this version.
	ErrMalformed RefusedError = "malformed"
	// ErrKey: a proof by a key that the server does not have.
	ErrKey RefusedError = "key"
	// ErrSession: a proof for another process.
	ErrSession RefusedError = "session"
	// ErrProof: a proof for another request or another pod.
	ErrProof RefusedError = "proof"
	// ErrStale: a proof that is too old, or from the future.
	ErrStale RefusedError = "stale"
	// ErrReplayed: a proof that came before.
	ErrReplayed RefusedError = "replayed"
)

// Refusals lists all of them.
func Refusals() []RefusedError {
	return []RefusedError{ErrMissing, ErrToken, ErrMalformed, ErrKey, ErrSession, ErrProof, ErrStale, ErrReplayed}
}

func (r RefusedError) Error() string { return "controlproof: refused: " + string(r) }

// proof is one request's; its fields are as they are sent.
type proof struct {
	key, session, time, nonce, mac string

	// parsed is the nonce; only parse sets it.
	parsed nonce
}

func (p *proof) seal(to []byte, key Key, podUID, method, path, rawQuery string) []byte {
	// The path comes last: decoded, it may hold a line break.
	return mac(to, key.secret[:], purposeProof, podUID, p.session, p.time, p.nonce, method, rawQuery, path)
}

func (p *proof) append(to []byte) []byte {
	to = append(to, version...)
	for _, field := range [...]string{p.key, p.session, p.time, p.nonce, p.mac} {
		to = append(append(to, ' '), field...)
	}
	return to
}

var errNoProof = errors.New("no proof of this version")

// maxProof is longer than any proof.
const maxProof = 256

func parse(value string) (p proof, err error) {
	if len(value) > maxProof {
		return p, errNoProof
	}
	fields := strings.Split(value, " ")
	if len(fields) != 6 || fields[0] != version {
		return p, errNoProof
	}
	p = proof{key: fields[1], session: fields[2], time: fields[3], nonce: fields[4], mac: fields[5]}
	_, isSession := parseNonce(p.session)
	var isNonce bool
	if p.parsed, isNonce = parseNonce(p.nonce); !isNonce || !isSession || len(p.mac) != macLength {
		return p, errNoProof
	}
	return p, nil
}
