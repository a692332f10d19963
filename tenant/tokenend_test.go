// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package tenant

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
)

func tokenOf(payload string) string {
	return "eyJhbGciOiJSUzI1NiJ9." + base64.RawURLEncoding.EncodeToString([]byte(payload)) + ".c2lnbmF0dXJl"
}

func TestTheEndOfAToken(t *testing.T) {
	for name, c := range map[string]struct {
		token string
		end   int64 // 0 for none
	}{
		"a JWT":                            {tokenOf(`{"iss":"x","exp":1800000000,"aud":["y"]}`), 1800000000},
		"a JWT with a fraction of one":     {tokenOf(`{"exp":1800000000.75}`), 1800000000},
		"a JWT in another notation":        {tokenOf(`{"exp":1.8e9}`), 1800000000},
		"a JWT of the last second":         {tokenOf(`{"exp":253402300799}`), 253402300799},
		"a JWT beyond it":                  {tokenOf(`{"exp":253402300800}`), 0},
		"a JWT that overflows":             {tokenOf(`{"exp":1e400}`), 0},
		"a JWT without an end":             {tokenOf(`{"iss":"x"}`), 0},
		"a JWT that ends before it began":  {tokenOf(`{"exp":-1}`), 0},
		"a JWT with text for an end":       {tokenOf(`{"exp":"1800000000"}`), 0},
		"a JWT that is a list":             {tokenOf(`[1800000000]`), 0},
		"a JWT that is broken off":         {tokenOf(`{"exp":1800000000`), 0},
		"a JWT that is nested without end": {tokenOf(strings.Repeat("[", 12000)), 0},
		"what is not base64":               {`a.{"exp":1800000000}.c`, 0},
		"too few parts":                    {strings.TrimSuffix(tokenOf(`{"exp":1800000000}`), ".c2lnbmF0dXJl"), 0},
		"too many parts":                   {tokenOf(`{"exp":1800000000}`) + ".more", 0},
		"an opaque token":                  {"9f86d081884c7d65", 0},
	} {
		t.Run(name, func(t *testing.T) {
			got := Bearer(c.token).TokenEnd()
			if c.end == 0 && !got.IsZero() || c.end != 0 && !got.Equal(time.Unix(c.end, 0)) {
				t.Errorf("ends at %v, want %d", got, c.end)
			}
		})
	}
	for _, c := range []Caller{{}, Subject(authenticationv1.UserInfo{Username: "alice"})} {
		if end := c.TokenEnd(); !end.IsZero() {
			t.Errorf("a caller without a token ends at %v", end)
		}
	}
}

// FuzzTokenEnd holds that whatever a token says, its end is none or a second that has a date.
func FuzzTokenEnd(f *testing.F) {
	f.Add(tokenOf(`{"exp":1800000000}`))
	f.Add(tokenOf(`{"exp":1e300,"EXP":-1}`))
	f.Add("a..b")
	f.Fuzz(func(t *testing.T, token string) {
		end := tokenEnd(token)
		if !end.IsZero() && (end.Unix() < 1 || end.Unix() > latestEnd || end.Nanosecond() != 0) {
			t.Fatalf("%q ends at %v", token, end)
		}
	})
}
