// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
)

var (
	now    = time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	keyOne = bytes.Repeat([]byte{1}, KeyBytes)
	keyTwo = bytes.Repeat([]byte{2}, KeyBytes)
)

const host = "sb-" + hash + ".preview.example.com"

func keys(t testing.TB, entries map[string][]byte) *Keys {
	t.Helper()
	k, err := NewKeys(entries)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func claims() *Claims {
	return &Claims{
		Subject: authenticationv1.UserInfo{
			Username: "alice", UID: "u", Groups: []string{"b", "a"},
			Extra: map[string]authenticationv1.ExtraValue{"authentication.kcp.io/scopes": {"cluster:one"}},
		},
		Cluster: "cluster1", Group: "sandbar.dev", Version: "v1alpha1", Resource: "sandboxrunners",
		Namespace: "default", Name: "demo", UID: "uid-demo", Path: "/page",
		IssuedAt: now.UnixNano(), Expires: now.Add(LinkLifetime).Unix(), SessionExpires: now.Add(time.Hour).Unix(),
	}
}

func seal(t testing.TB, k *Keys, purpose Purpose, c *Claims) string {
	t.Helper()
	sealed, err := k.Seal(purpose, host, c)
	if err != nil {
		t.Fatal(err)
	}
	return sealed
}

func TestWhatIsSealedOpensForItsPurposeAndHostAlone(t *testing.T) {
	k := keys(t, map[string][]byte{"a": keyOne})
	link, session := seal(t, k, Link, claims()), seal(t, k, Session, claims())
	for name, c := range map[string]struct {
		keys    *Keys
		purpose Purpose
		host    string
		sealed  string
		at      time.Time
		want    error
	}{
		"a link as a link":                          {k, Link, host, link, now, nil},
		"a session as a session":                    {k, Session, host, session, now, nil},
		"a link as a session":                       {k, Session, host, link, now, ErrInvalid},
		"a session as a link":                       {k, Link, host, session, now, ErrInvalid},
		"on another instance's host":                {k, Link, strings.Replace(host, "sb-a", "sb-b", 1), link, now, ErrInvalid},
		"on a component's host":                     {k, Link, "api--" + host, link, now, ErrInvalid},
		"on the host with another port":             {k, Link, host + ":8443", link, now, ErrInvalid},
		"just before it ends":                       {k, Link, host, link, now.Add(LinkLifetime - time.Nanosecond), nil},
		"when it ends":                              {k, Link, host, link, now.Add(LinkLifetime), ErrExpired},
		"at a clock that is a little behind":        {k, Link, host, link, now.Add(-Skew), nil},
		"at a clock that is far behind":             {k, Link, host, link, now.Add(-Skew - time.Nanosecond), ErrFuture},
		"with its key removed":                      {keys(t, map[string][]byte{"b": keyOne}), Link, host, link, now, ErrKey},
		"with another key of that name":             {keys(t, map[string][]byte{"a": keyTwo}), Link, host, link, now, ErrInvalid},
		"with a newer key beside its own":           {keys(t, map[string][]byte{"a": keyOne, "b": keyTwo}), Link, host, link, now, nil},
		"without keys":                              {nil, Link, host, link, now, ErrInvalid},
		"nothing":                                   {k, Link, host, "", now, ErrInvalid},
		"the version alone":                         {k, Link, host, base64.RawURLEncoding.EncodeToString([]byte{version}), now, ErrInvalid},
		"a name of a key that is longer than it is": {k, Link, host, base64.RawURLEncoding.EncodeToString([]byte{version, 200, 'a'}), now, ErrInvalid},
		"only the head":                             {k, Link, host, base64.RawURLEncoding.EncodeToString([]byte{version, 1, 'a'}), now, ErrInvalid},
		"padding behind":                            {k, Link, host, link + "=", now, ErrInvalid},
		"a line end within":                         {k, Link, host, link[:9] + "\n" + link[9:], now, ErrInvalid},
		"more than is looked at":                    {k, Link, host, strings.Repeat("A", MaxSealedBytes+1), now, ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := c.keys.Open(c.purpose, c.host, c.sealed, c.at)
			if !errors.Is(err, c.want) {
				t.Fatalf("got %v, want %v", err, c.want)
			}
			if c.want != nil {
				if got != nil && !errors.Is(err, ErrExpired) {
					t.Error("claims came with an error")
				}
				return
			}
			if diff := cmp.Diff(claims(), got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestNoByteOfWhatIsSealedCanBeChanged(t *testing.T) {
	k := keys(t, map[string][]byte{"a": keyOne, "b": keyTwo, "c": keyOne})
	raw, err := base64.RawURLEncoding.DecodeString(seal(t, k, Session, claims()))
	if err != nil {
		t.Fatal(err)
	}
	for i := range raw {
		for bit := range 8 {
			changed := bytes.Clone(raw)
			changed[i] ^= 1 << bit
			if got, err := k.Open(Session, host, base64.RawURLEncoding.EncodeToString(changed), now); err == nil {
				t.Fatalf("with bit %d of byte %d changed it opens: %+v", bit, i, got)
			}
		}
	}
	// Also the name of the key is part of what is sealed: "a" has the same bytes as "c".
	changed := bytes.Clone(raw)
	changed[2] = 'a'
	if _, err := k.Open(Session, host, base64.RawURLEncoding.EncodeToString(changed), now); !errors.Is(err, ErrInvalid) {
		t.Errorf("under another name of the same key: %v", err)
	}
}

func TestNothingSealedCanBeReadOrForetold(t *testing.T) {
	k := keys(t, map[string][]byte{"a": keyOne})
	one, two := seal(t, k, Link, claims()), seal(t, k, Link, claims())
	raw, err := base64.RawURLEncoding.DecodeString(one)
	if err != nil {
		t.Fatal(err)
	}
	if one == two {
		t.Error("the same claims are sealed the same way twice")
	}
	for _, secret := range []string{"alice", "cluster1", "demo", "/page"} {
		if bytes.Contains(raw, []byte(secret)) {
			t.Errorf("%q can be read", secret)
		}
	}
}

func TestTheNewestKeySeals(t *testing.T) {
	both := keys(t, map[string][]byte{"20260101T000000Z": keyOne, "20261121T080000Z": keyTwo})
	sealed := seal(t, both, Link, claims())
	if _, err := keys(t, map[string][]byte{"20261121T080000Z": keyTwo}).Open(Link, host, sealed, now); err != nil {
		t.Errorf("the newer key does not open it: %v", err)
	}
	if _, err := keys(t, map[string][]byte{"20260101T000000Z": keyOne}).Open(Link, host, sealed, now); !errors.Is(err, ErrKey) {
		t.Errorf("the older key alone: %v", err)
	}
}

func TestAnEntryThatIsNoKeyIsNamedAndLeftOut(t *testing.T) {
	k, err := NewKeys(map[string][]byte{"a": keyOne, "z": keyOne[1:], "": keyOne, "b c": keyOne, strings.Repeat("k", maxKeyID+1): keyOne})
	if err == nil || !strings.Contains(err.Error(), `"z"`) || strings.Contains(err.Error(), string(keyOne)) {
		t.Errorf("the error is %v", err)
	}
	if k.newest != "a" || len(k.sealers) != 1 {
		t.Errorf("taken: %v, newest %q", k.sealers, k.newest)
	}
	none, err := NewKeys(nil)
	if err != nil || !none.Empty() {
		t.Errorf("no entries: %v, empty %v", err, none.Empty())
	}
	if _, err := none.Seal(Link, host, claims()); !errors.Is(err, ErrNoKey) {
		t.Errorf("sealing without a key: %v", err)
	}
}

func FuzzOpen(f *testing.F) {
	k := keys(f, map[string][]byte{"a": keyOne, "b": keyTwo})
	f.Add(seal(f, k, Link, claims()), "L", host)
	f.Add(seal(f, k, Session, claims()), "S", host)
	f.Add("AQFi", "L", host)
	f.Add("", "", "")
	foreign := keys(f, map[string][]byte{"a": keyTwo, "b": keyOne})
	f.Fuzz(func(t *testing.T, sealed, purpose, at string) {
		if len(purpose) != 1 {
			return
		}
		got, err := k.Open(Purpose(purpose[0]), at, sealed, now)
		if (got == nil) != (err != nil) {
			t.Fatalf("claims %v with error %v", got, err)
		}
		// Nobody makes what opens but who has the key: what opens says what was sealed above.
		if err == nil && (at != host || cmp.Diff(claims(), got) != "") {
			t.Fatalf("opened on %q: %+v", at, got)
		}
		if _, err := foreign.Open(Purpose(purpose[0]), at, sealed, now); err == nil {
			t.Fatal("opens with another's keys")
		}
	})
}

// A link has more in it than the session that it is exchanged for.
func TestALinkOpensIfItsSessionFitsIntoACookie(t *testing.T) {
	keys, err := NewKeys(map[string][]byte{"20260101T000000Z": make([]byte, KeyBytes)})
	if err != nil {
		t.Fatal(err)
	}
	later := time.Now().Add(time.Minute).Unix()
	claims := &Claims{
		Cluster: "c", Group: "g", Version: "v", Resource: "r", Namespace: "n", Name: "n", UID: "u", Expires: later, SessionExpires: later,
		Path: "/" + strings.Repeat("a", MaxPathBytes-1), Renew: "https://hub.example/" + strings.Repeat("b", MaxRenewURLBytes-20), IssuedAt: time.Now().UnixNano(),
	}
	for {
		session, err := keys.Seal(Session, "h", claims.Session())
		if err != nil {
			t.Fatal(err)
		}
		if !Fits(session) {
			break
		}
		link, err := keys.Seal(Link, "h", claims)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := keys.Open(Link, "h", link, time.Now()); err != nil {
			t.Fatalf("a link of %d bytes with a session of %d: %v", len(link), len(session), err)
		}
		claims.Subject.Groups = append(claims.Subject.Groups, fmt.Sprintf("a-group-of-people-%d", len(claims.Subject.Groups)))
	}
}
