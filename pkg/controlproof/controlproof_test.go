// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package controlproof

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

const (
	token    = "the-token-of-a-placement-6f2a"
	podUID   = "7f1c0d5e-1f0b-4f4e-9c51-0d4c7c1f7a10"
	otherUID = "1b2c0d5e-1f0b-4f4e-9c51-0d4c7c1f7a11"
)

// begin makes a verifier and a session with it.
func begin(t testing.TB, has, asks []Key) (*Verifier, *Session) {
	t.Helper()
	v := NewVerifier(podUID)
	return v, ask(t, v, podUID, has, asks)
}

func ask(t testing.TB, v *Verifier, uid string, has, asks []Key) *Session {
	t.Helper()
	nonce := NewNonce()
	c, err := v.Challenge(nonce, has)
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.Accept(uid, nonce, asks)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *Session) proof(method, path, query string) string {
	return string(s.AppendProof(nil, method, path, query))
}

func TestAProofIsGoodForOneRequestOnce(t *testing.T) {
	keys := []Key{NewKey(token)}
	v, s := begin(t, keys, keys)
	first := s.proof("POST", "/sync", "a=1")
	if err := v.Verify(first, "POST", "/sync", "a=1", keys); err != nil {
		t.Fatal(err)
	}
	if err := v.Verify(first, "POST", "/sync", "a=1", keys); err != ErrReplayed { //nolint:errorlint // a value
		t.Errorf("a second time: %v", err)
	}
	another, _ := begin(t, keys, keys)
	elsewhere := NewVerifier(otherUID)
	elsewhere.session, elsewhere.began = v.session, v.began
	for name, c := range map[string]struct {
		v                   *Verifier
		method, path, query string
		keys                []Key
		want                RefusedError
	}{
		"another method":              {v, "GET", "/sync", "a=1", keys, ErrProof},
		"another path":                {v, "POST", "/restart", "a=1", keys, ErrProof},
		"another query":               {v, "POST", "/sync", "a=2", keys, ErrProof},
		"the query as path":           {v, "POST", "a=1", "/sync", keys, ErrProof},
		"a path with a line break":    {v, "POST", "1\n/sync", "a=", keys, ErrProof},
		"another pod":                 {elsewhere, "POST", "/sync", "a=1", keys, ErrProof},
		"another process of the pod":  {another, "POST", "/sync", "a=1", keys, ErrSession},
		"a server with another token": {v, "POST", "/sync", "a=1", []Key{NewKey("another-token-of-a-placement")}, ErrKey},
		"a server without a token":    {v, "POST", "/sync", "a=1", nil, ErrKey},
	} {
		t.Run(name, func(t *testing.T) {
			if err := c.v.Verify(s.proof("POST", "/sync", "a=1"), c.method, c.path, c.query, c.keys); err != c.want { //nolint:errorlint // a value
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

func TestNoPartOfAProofCanBeChanged(t *testing.T) {
	keys := []Key{NewKey(token)}
	v, s := begin(t, keys, keys)
	good := s.proof("GET", "/logs", "")
	for i := range len(good) {
		for _, c := range []byte{'0', 'A', ' ', '\n', 0, 0xff} {
			bad := []byte(good)
			if bad[i] == c {
				continue
			}
			bad[i] = c
			if err := v.Verify(string(bad), "GET", "/logs", "", keys); err == nil {
				t.Errorf("%q passed for %q", bad, good)
			}
		}
	}
	for _, bad := range []string{"", "v1", good + " ", " " + good, good + "=", strings.Replace(good, "v1", "v2", 1), strings.Repeat("a", 300)} {
		if err := v.Verify(bad, "GET", "/logs", "", keys); err != ErrMalformed { //nolint:errorlint // a value
			t.Errorf("%q: %v", bad, err)
		}
	}
	if err := v.Verify(good, "GET", "/logs", "", keys); err != nil {
		t.Errorf("what was refused has used up the proof: %v", err)
	}
}

// Two machines' clocks need not agree, and a server's may jump: proofs have the server's own time.
func TestAProofGrowsStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := []Key{NewKey(token)}
		v, s := begin(t, keys, keys)
		p := s.proof("GET", "/logs", "")
		time.Sleep(Window + time.Millisecond)
		if err := v.Verify(p, "GET", "/logs", "", keys); err != ErrStale { //nolint:errorlint // a value
			t.Errorf("a proof that is too old: %v", err)
		}
		if err := v.Verify(s.proof("GET", "/logs", ""), "GET", "/logs", "", keys); err != nil {
			t.Errorf("a new one of the same session: %v", err)
		}
		s.began = s.began.Add(-Window - time.Second)
		if err := v.Verify(s.proof("GET", "/logs", ""), "GET", "/logs", "", keys); err != ErrStale { //nolint:errorlint // a value
			t.Errorf("one from the future: %v", err)
		}
	})
}

// Whatever number of proofs comes, memory is bounded and nothing is taken twice.
func TestNothingIsTakenTwiceHoweverManyProofsCome(t *testing.T) {
	r := &NewVerifier(podUID).replays
	var taken []nonce
	const each = 100
	for i := range 3*maxSeen + 1 {
		n := newNonce()
		if err := r.add(n, int64(i), int64(i)); err != nil {
			t.Fatalf("proof %d: %v", i, err)
		}
		if i%each == 0 {
			taken = append(taken, n)
		}
		if held := len(r.young.nonces) + len(r.old.nonces); held > 2*maxSeen {
			t.Fatalf("%d proofs are remembered", held)
		}
	}
	for i, n := range taken {
		if err := r.add(n, int64(i*each), 3*maxSeen); err == nil {
			t.Fatalf("proof %d was taken twice", i*each)
		}
	}
}

func TestOldProofsAreForgotten(t *testing.T) {
	r := &NewVerifier(podUID).replays
	now := int64(0)
	for range 10 {
		for range 100 {
			if err := r.add(newNonce(), now, now); err != nil {
				t.Fatal(err)
			}
		}
		now += 2*windowMillis + 1
	}
	if held := len(r.young.nonces) + len(r.old.nonces); held > 200 {
		t.Errorf("%d proofs are remembered", held)
	}
}

func TestAChallengeProvesTheToken(t *testing.T) {
	now, before, other := NewKey(token), NewKey("the-token-before-that-one-77"), NewKey("another-placement's-token-1")
	for name, c := range map[string]struct {
		has, asks []Key
		want      *Key
	}{
		"the same token":                         {[]Key{now}, []Key{now}, &now},
		"the asker's preference counts":          {[]Key{before, now}, []Key{now, before}, &now},
		"a server that knows the former one yet": {[]Key{before}, []Key{now, before}, &before},
		"a server that knows a later one":        {[]Key{now, before}, []Key{before}, &before},
		"another token":                          {[]Key{other}, []Key{now, before}, nil},
		"no token":                               {nil, []Key{now}, nil},
		"an asker without one":                   {[]Key{now}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			v, nonce := NewVerifier(podUID), NewNonce()
			challenge, err := v.Challenge(nonce, c.has)
			if err != nil {
				t.Fatal(err)
			}
			s, err := challenge.Accept(podUID, nonce, c.asks)
			if c.want == nil {
				if !errors.Is(err, ErrNoCommonKey) {
					t.Fatalf("accepted: %v", err)
				}
				return
			}
			if err != nil || !s.Key().Equal(*c.want) {
				t.Fatalf("%v, with key %v", err, s)
			}
			if err := v.Verify(s.proof("GET", "/logs", ""), "GET", "/logs", "", c.has); err != nil {
				t.Error(err)
			}
		})
	}
}

// A pod that has only heard what another one said, or has its challenges, cannot pass for it.
func TestAChallengeCannotBeUsedAgainOrChanged(t *testing.T) {
	keys := []Key{NewKey(token)}
	v, nonce := NewVerifier(podUID), NewNonce()
	good, err := v.Challenge(nonce, keys)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		uid, nonce string
		change     func(*Challenge)
	}{
		"for another pod":           {otherUID, nonce, func(*Challenge) {}},
		"for another nonce":         {podUID, NewNonce(), func(*Challenge) {}},
		"with another session":      {podUID, nonce, func(c *Challenge) { c.Session = NewNonce() }},
		"with a time in the future": {podUID, nonce, func(c *Challenge) { c.Time += 1000 }},
		"with a negative time":      {podUID, nonce, func(c *Challenge) { c.Time = -1 }},
		"with an endless time":      {podUID, nonce, func(c *Challenge) { c.Time = 1 << 62 }},
		"without a seal":            {podUID, nonce, func(c *Challenge) { c.Keys[0].MAC = "" }},
		"with a session of no form": {podUID, nonce, func(c *Challenge) { c.Session = "a\nb" }},
		"with too many keys":        {podUID, nonce, func(c *Challenge) { c.Keys = append(c.Keys, make([]Seal, MaxKeys)...) }},
	} {
		t.Run(name, func(t *testing.T) {
			changed := good
			changed.Keys = append([]Seal(nil), good.Keys...)
			c.change(&changed)
			if _, err := changed.Accept(c.uid, c.nonce, keys); !errors.Is(err, ErrNoCommonKey) {
				t.Errorf("accepted: %v", err)
			}
		})
	}
	if _, err := good.Accept(podUID, nonce, keys); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"", "short", strings.Repeat("=", nonceLength), nonce + "A", "a\n" + nonce[2:]} {
		if _, err := v.Challenge(bad, keys); !errors.Is(err, ErrNonce) {
			t.Errorf("a nonce %q: %v", bad, err)
		}
	}
}

// What one side sends is no secret of the other: none of it holds the token or the key.
func TestNothingThatIsSentHoldsTheToken(t *testing.T) {
	keys := []Key{NewKey(token)}
	v, s := begin(t, keys, keys)
	c, err := v.Challenge(NewNonce(), keys)
	if err != nil {
		t.Fatal(err)
	}
	said, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("keys", "key", keys[0], "keys", keys, "session", s)
	secret := keys[0].secret[:]
	for _, text := range []string{
		string(said), s.proof("GET", "/", ""), fmt.Sprintf("%v %+v %#v %s %q", keys[0], keys[0], keys[0], keys[0], keys[0]),
		fmt.Sprintf("%v %+v %#v", keys, s, v), log.String(),
	} {
		for _, form := range []string{token, string(secret), hex.EncodeToString(secret), encoding.EncodeToString(secret), fmt.Sprintf("%d", secret)} {
			if strings.Contains(text, form) {
				t.Errorf("%q is in %s", form, text)
			}
		}
	}
}

func TestAVerifierIsForConcurrentUse(t *testing.T) {
	keys := []Key{NewKey(token)}
	v, s := begin(t, keys, keys)
	p := s.proof("GET", "/logs", "")
	var wg sync.WaitGroup
	var mu sync.Mutex
	passed := 0
	for range 16 {
		wg.Go(func() {
			for range 100 {
				if err := v.Verify(s.proof("GET", "/logs", ""), "GET", "/logs", "", keys); err != nil {
					t.Error(err)
				}
			}
			if v.Verify(p, "GET", "/logs", "", keys) == nil {
				mu.Lock()
				defer mu.Unlock()
				passed++
			}
		})
	}
	wg.Wait()
	if passed != 1 {
		t.Errorf("one proof passed %d times", passed)
	}
}

// FuzzVerify: no text that was not made with the key is a proof, and none makes the server fail.
func FuzzVerify(f *testing.F) {
	keys := []Key{NewKey(token)}
	v, s := begin(f, keys, keys)
	stranger := []Key{NewKey("a-token-that-was-made-up-123")}
	f.Add(s.proof("GET", "/logs", ""))
	f.Add("v1 " + keys[0].ID() + " " + v.session + " 1 " + NewNonce() + " " + strings.Repeat("A", macLength))
	f.Add("v1     ")
	f.Fuzz(func(t *testing.T, value string) {
		if err := v.Verify(value, "GET", "/logs", "", stranger); err == nil {
			t.Errorf("%q passed", value)
		}
	})
}

func BenchmarkAppendProof(b *testing.B) {
	keys := []Key{NewKey(token)}
	_, s := begin(b, keys, keys)
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = s.AppendProof(buf[:0], "GET", "/files/src/a.ts", "exclude=node_modules")
	}
}

func BenchmarkVerify(b *testing.B) {
	keys := []Key{NewKey(token)}
	v, s := begin(b, keys, keys)
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		p := s.proof("GET", "/files/src/a.ts", "exclude=node_modules")
		b.StartTimer()
		_ = v.Verify(p, "GET", "/files/src/a.ts", "exclude=node_modules", keys)
	}
}

func BenchmarkChallenge(b *testing.B) {
	keys := []Key{NewKey(token), NewKey("the-token-before-that-one-77")}
	v := NewVerifier(podUID)
	b.ReportAllocs()
	for b.Loop() {
		nonce := NewNonce()
		c, _ := v.Challenge(nonce, keys)
		_, _ = c.Accept(podUID, nonce, keys)
	}
}
