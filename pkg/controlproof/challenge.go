// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package controlproof

import (
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"strconv"
	"time"
)

const (
	// ChallengePath is where a control server answers with a [Challenge] in JSON, to GET, without
	// any credential.
	ChallengePath = "/challenge"
	// NonceParameter names the query parameter that has the asker's nonce.
	NonceParameter = "nonce"
	// MaxKeys is how many keys a challenge may be sealed with.
	MaxKeys = 8

	// maxTime is the longest that a process may have served, a century.
	maxTime = int64(100 * 365 * 24 * time.Hour / time.Millisecond)
)

// Challenge is what a control server says of itself.
type Challenge struct {
	// Session is random and the same for as long as the process serves.
	Session string `json:"session"`
	// Time is how long the process has served, in milliseconds.
	Time int64 `json:"time"`
	// Keys are the keys that it has, each with its seal on all of this.
	Keys []Seal `json:"keys"`
}

// Seal is the word of the holder of one key.
type Seal struct {
	ID  string `json:"id"`
	MAC string `json:"mac"`
}

var (
	// ErrNonce means that the nonce in the request for a challenge is not 16 bytes in base64url.
	ErrNonce = errors.New("controlproof: the nonce is not 16 bytes in base64url without padding")
	// ErrNoCommonKey means that a challenge is sealed with no key that the asker has: the pod
	// has another token, or is another pod.
	ErrNoCommonKey = errors.New("controlproof: the pod has not proven that it has the control token")
)

func (c *Challenge) seal(key Key, podUID, nonce string) string {
	var sum [sha256.Size]byte
	return encoding.EncodeToString(mac(sum[:0], key.secret[:], purposeChallenge, podUID, nonce, c.Session, strconv.FormatInt(c.Time, 10)))
}

// Session is one process of a pod, for who has had its challenge. It is for concurrent use.
type Session struct {
	key    Key
	podUID string
	id     string
	// began is when the process began to serve, by our clock.
	began time.Time
}

// Accept checks the challenge that was asked for with a nonce. It takes the first of the keys that
// the pod has shown to have too; the order is therefore the asker's preference.
func (c *Challenge) Accept(podUID, nonce string, keys []Key) (*Session, error) {
	if _, ok := parseNonce(c.Session); !ok || c.Time < 0 || c.Time > maxTime || len(c.Keys) > MaxKeys {
		return nil, ErrNoCommonKey
	}
	for _, key := range keys {
		for _, sealed := range c.Keys {
			if sealed.ID == key.id && hmac.Equal([]byte(sealed.MAC), []byte(c.seal(key, podUID, nonce))) {
				began := time.Now().Add(-time.Duration(c.Time) * time.Millisecond)
				return &Session{key: key, podUID: podUID, id: c.Session, began: began}, nil
			}
		}
	}
	return nil, ErrNoCommonKey
}

// Key is the one that proofs are made with.
func (s *Session) Key() Key { return s.key }

// AppendProof appends a proof, the value of [Header], for one request.
func (s *Session) AppendProof(to []byte, method, path, rawQuery string) []byte {
	p := proof{
		key: s.key.id, session: s.id, nonce: NewNonce(),
		time: strconv.FormatInt(time.Since(s.began).Milliseconds(), 10),
	}
	var sum [sha256.Size]byte
	p.mac = encoding.EncodeToString(p.seal(sum[:0], s.key, s.podUID, method, path, rawQuery))
	return p.append(to)
}
