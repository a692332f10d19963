// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package controlproof

import (
	"crypto/hmac"
	"crypto/sha256"
	"strconv"
	"sync"
	"time"
)

const (
	// Window is how far the time of a proof may be from the server's own. What takes time is the
	// way of a request, and a machine that was stopped in between; clocks do not matter.
	Window = time.Minute
	// maxSeen bounds the proofs that are remembered; twice as many may be. That is 60 requests a
	// second for as long as a proof is good; beyond that proofs grow stale sooner.
	maxSeen = 16 << 10

	windowMillis = int64(Window / time.Millisecond)
)

// Verifier is a control server's side. It is for concurrent use.
type Verifier struct {
	podUID  string
	session string
	began   time.Time
	replays replays
}

// NewVerifier begins a session of the pod with a UID.
func NewVerifier(podUID string) *Verifier {
	never := generation{latest: -1}
	return &Verifier{podUID: podUID, session: NewNonce(), began: time.Now(), replays: replays{young: never, old: never, floor: -1}}
}

// Challenge answers a request for a challenge. The answer is public; the keys are not in it.
func (v *Verifier) Challenge(nonce string, keys []Key) (Challenge, error) {
	if _, ok := parseNonce(nonce); !ok {
		return Challenge{}, ErrNonce
	}
	c := Challenge{Session: v.session, Time: time.Since(v.began).Milliseconds(), Keys: []Seal{}}
	for _, key := range keys {
		c.Keys = append(c.Keys, Seal{ID: key.id, MAC: c.seal(key, v.podUID, nonce)})
	}
	return c, nil
}

// Verify checks the proof of a request; keys are those that the server has. Its error is a
// [RefusedError]. A proof is good once.
func (v *Verifier) Verify(value, method, path, rawQuery string, keys []Key) error {
	p, err := parse(value)
	if err != nil {
		return ErrMalformed
	}
	key := find(keys, p.key)
	if key.IsZero() {
		return ErrKey
	}
	// Before the MAC, so that who has the key learns what is wrong; neither is a secret.
	if p.session != v.session {
		return ErrSession
	}
	var sum [sha256.Size]byte
	want := encoding.EncodeToString(p.seal(sum[:0], key, v.podUID, method, path, rawQuery))
	if !hmac.Equal([]byte(p.mac), []byte(want)) {
		return ErrProof
	}
	at, err := strconv.ParseInt(p.time, 10, 64)
	now := time.Since(v.began).Milliseconds()
	if err != nil || at < now-windowMillis || at > now+windowMillis {
		return ErrStale
	}
	// Only now: what nobody with the key has made is not remembered.
	return v.replays.add(p.parsed, at, now)
}

func find(keys []Key, id string) Key {
	for _, key := range keys {
		if key.id == id {
			return key
		}
	}
	return Key{}
}

// replays remembers the proofs that came, in two generations. With the older one all of it is
// forgotten, and no proof that is as old as one in it counts any more: so nothing comes twice,
// however many come. Times are in milliseconds since the server began.
type replays struct {
	mu         sync.Mutex
	young, old generation
	// floor is the latest time of what was forgotten.
	floor int64
}

// generation is some proofs that came.
type generation struct {
	nonces map[nonce]struct{}
	// since is when the first one came, latest the latest time in them.
	since, latest int64
}

// add notes a proof that was made at a time.
func (r *replays) add(n nonce, at, now int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.young.nonces == nil || len(r.young.nonces) >= maxSeen || now-r.young.since > 2*windowMillis {
		r.floor = max(r.floor, r.old.latest)
		r.old, r.young = r.young, generation{nonces: map[nonce]struct{}{}, since: now, latest: -1}
	}
	if at <= r.floor {
		return ErrStale
	}
	_, young := r.young.nonces[n]
	_, old := r.old.nonces[n]
	if young || old {
		return ErrReplayed
	}
	r.young.nonces[n] = struct{}{}
	r.young.latest = max(r.young.latest, at)
	return nil
}
