// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"fmt"
	"maps"
	"net/http"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/sandbar-dev/sandbar/tenant"
)

// Many callers with tokens and without ask for one instance at once: some may, some may not, and
// the rights of some change meanwhile. Every answer must be its caller's own: a cache, or a flight
// for many, that mixed them up would let one of them through. The cache is smaller than the
// callers, so that entries come and go.
func TestTheCacheDoesNotMixCallers(t *testing.T) {
	w := newWorld(t, recorder(), func(s *setup) { s.opts.AuthorizationCacheSize = 16 })
	w.watched()
	a := w.server.handler.authorizer
	const callers, rounds = 48, 20
	log := []string{"get sandboxrunners", "get sandboxrunners/log"}
	// ask tells whether a caller may, by answers of kcp since a point in time.
	ask := func(q question, since time.Time) (bool, error) {
		g, refused := a.since(t.Context(), q, since)
		switch {
		case refused == nil && g.id == demoID:
			return true, nil
		case refused != nil && refused.code == http.StatusForbidden:
			return false, nil
		}
		return false, fmt.Errorf("%+v, %w", g, refused)
	}
	var wg sync.WaitGroup
	for i := range callers {
		name := fmt.Sprintf("caller-%d", i)
		q, key := subjectQuestion(name, "cluster1", "log", "get"), "user:"+name
		if i%2 == 0 {
			// The same name as a subject's, and as another's UID and group.
			q.caller, key = tenant.Bearer(name), name
		} else {
			q.caller = tenant.Subject(authenticationv1.UserInfo{Username: name, UID: "caller-0", Groups: []string{"caller-2"}})
		}
		// A third may, a third may not, and the rest may now and then.
		kind := i / 2 % 3
		w.kcp.grant(key, map[bool][]string{true: log, false: {"get sandboxrunners"}}[kind == 0]...)
		wg.Go(func() {
			for round := range rounds {
				want, since := kind == 0, time.Time{}
				if kind == 2 {
					want = round%2 == 0
					rights := map[string]bool{"access": true, log[0]: true, log[1]: want}
					w.kcp.set(func() { w.kcp.rights[key] = maps.Clone(rights) })
					since = time.Now()
				}
				if got, err := ask(q, since); err != nil || got != want {
					t.Errorf("%s in round %d: got %t (%v), want %t", name, round, got, err, want)
					return
				}
			}
		})
	}
	wg.Wait()
}

// BenchmarkAuthorizeCached is a decision from the cache: the whole of what authorization adds to a
// request whose caller asked a moment ago.
func BenchmarkAuthorizeCached(b *testing.B) {
	a, err := newAuthorizer(nil, nil, Options{AuthorizationCacheSize: 1024, AuthorizationConcurrency: 1}, nil, newMetrics("test"))
	if err != nil {
		b.Fatal(err)
	}
	subject := subjectQuestion("alice", "root:acme:dev", "log", "get")
	bearer := subject
	bearer.caller = tenant.Bearer("eyJhbGciOiJSUzI1NiIsImtpZCI6IiJ9." + string(make([]byte, 900)))
	for name, q := range map[string]question{"bearer": bearer, "subject": subject} {
		b.Run(name, func(b *testing.B) {
			a.answers.Add(q.key(), answer{grant: grant{id: demoID}, asked: time.Now(), expires: time.Now().Add(time.Hour)})
			b.ReportAllocs()
			for b.Loop() {
				if _, refused := a.authorize(b.Context(), q); refused != nil {
					b.Fatal(refused)
				}
			}
		})
	}
}
