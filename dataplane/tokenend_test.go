// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sandbar-dev/sandbar/dataplane/access"
	"github.com/sandbar-dev/sandbar/dataplane/limit"
	"github.com/sandbar-dev/sandbar/dataplane/refusal"
	"github.com/sandbar-dev/sandbar/tenant"
)

func tokenThatEnds(at time.Time) string {
	return "e30." + base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"exp":%d}`, at.Unix())) + ".AA"
}

// looksAt has three streams with a token go on for a while, and tells when kcp was asked: by the
// bound on a caller's questions, which comes right before kcp. It refuses them, so that the streams
// take kcp for busy and go on. At the token's end there is an answer that is new.
func looksAt(t *testing.T, token string, ends, d time.Duration) []time.Duration {
	t.Helper()
	start := time.Now()
	var (
		mu    sync.Mutex
		looks []time.Duration
	)
	who, err := access.NewCallerLimiter(func() *limit.Limits {
		mu.Lock()
		looks = append(looks, time.Since(start))
		mu.Unlock()
		time.Sleep(time.Millisecond) // so that the other streams find the question under way
		return &limit.Limits{}
	})
	if err != nil {
		t.Fatal(err)
	}
	a, err := access.New(nil, nil, access.Options{CacheSize: 10, Concurrency: 1}, who, access.NewMetrics(prometheus.NewRegistry()))
	if err != nil {
		t.Fatal(err)
	}
	q := access.Question{Caller: tenant.Bearer(token), Verb: "get"}
	defer time.AfterFunc(ends, func() {
		a.KeepForTest(q, access.Grant{}, refusal.TooMany(refusal.CauseQuestions, "", 0), 10*time.Second)
	}).Stop()
	h := &handler{live: newLive(nil), authorizer: a, settings: &settings{}}
	h.settings.current.Store(&snapshot{limits: limit.Limits{KcpTolerance: 2 * d}})
	for range 3 {
		ctx, cancel := context.WithCancelCause(t.Context())
		s := &supervisor{
			h: h, x: &exchange{question: q}, ctx: ctx, cancel: cancel, lastGood: start,
		}
		s.begin(start)
		defer s.stop()
		defer cancel(nil)
	}
	time.Sleep(d)
	synctest.Wait()
	return looks
}

func TestTheEndOfATokenIsLookedAtWhenItComes(t *testing.T) {
	const long = 3 * time.Minute
	sec := func(seconds ...int) (all []time.Duration) {
		for _, s := range seconds {
			all = append(all, time.Duration(s)*time.Second)
		}
		return all
	}
	for name, c := range map[string]struct {
		ends time.Duration // from now
		// added are looks that the end adds: each is one question, whatever the streams.
		added []time.Duration
	}{
		"a token that ends soon":                            {5 * time.Second, sec(6, 11, 16, 21, 26, 31, 36, 41, 46, 51, 56, 61, 66, 71, 76, 81)},
		"a token that ends before it is read":               {0, sec(1, 6, 11, 16, 21, 26, 31, 36, 41, 46, 51, 56, 61, 66, 71, 76)},
		"a token that kcp took although it had ended":       {-63 * time.Second, sec(3, 8, 13)},
		"a forged end in the past":                          {-time.Hour, nil},
		"an end that has no place among the hundred years":  {200 * 365 * 24 * time.Hour, nil},
		"a token whose last looks come after the stream":    {long - 2*time.Second, sec(179)},
		"a token that ends after the usual looks had begun": {100 * time.Second, sec(101, 106, 111, 116, 121, 126, 131, 136, 141, 146, 151, 156, 161, 166, 171, 176)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				looks := looksAt(t, tokenThatEnds(time.Now().Add(c.ends)), c.ends, long)
				for _, at := range c.added {
					same := 0
					for _, look := range looks {
						if look == at {
							same++
						}
					}
					if same != 1 {
						t.Errorf("kcp was asked %d times after %v: %v", same, at, looks)
					}
				}
				if usual := 3 * int(long/recheckAfter); len(looks) > usual+len(c.added) {
					t.Errorf("kcp was asked %d times: %v", len(looks), looks)
				}
				var before time.Duration
				for _, look := range append(looks, long) {
					if look-before > recheckAfter+recheckSpread {
						t.Errorf("nobody asked between %v and %v", before, look)
					}
					before = look
				}
			})
		})
	}
}

func TestATokenWithoutAnEndIsLookedAtAsEver(t *testing.T) {
	for _, token := range []string{"opaque", "e30.e30.AA", tokenThatEnds(time.Unix(1, 0))} {
		synctest.Test(t, func(t *testing.T) {
			looks := looksAt(t, token, 0, 3*time.Minute)
			if early := slices.IndexFunc(looks, func(at time.Duration) bool { return at < recheckAfter }); early >= 0 || len(looks) > 3*12 {
				t.Errorf("%s: kcp was asked at %v", token, looks)
			}
		})
	}
}

func TestTheLooksThatTheEndOfATokenAdds(t *testing.T) {
	end := time.Unix(1000, 0)
	for _, c := range []struct{ now, last, next time.Duration }{
		{-time.Hour, 0, firstEndLook},
		{firstEndLook - 1, 0, firstEndLook},
		{firstEndLook, firstEndLook, firstEndLook + access.RecheckAge},
		{firstEndLook + access.RecheckAge - 1, firstEndLook, firstEndLook + access.RecheckAge},
		{lastEndLook, lastEndLook, 0},
		{lastEndLook + 1, 0, 0},
	} {
		last, next := endLooks(end, end.Add(c.now))
		for _, got := range []struct {
			at   time.Time
			want time.Duration
		}{{last, c.last}, {next, c.next}} {
			if got.want == 0 && !got.at.IsZero() || got.want != 0 && !got.at.Equal(end.Add(got.want)) {
				t.Errorf("%v after the end: looks at %v and %v, want %v and %v", c.now, last, next, c.last, c.next)
			}
		}
	}
}
