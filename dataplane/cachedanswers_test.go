// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"fmt"
	"maps"
	"net/http"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/sandbar-dev/sandbar/dataplane/access"
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
	ask := func(q access.Question, since time.Time) (bool, error) {
		g, refused := a.Since(t.Context(), q, since)
		switch {
		case refused == nil && g.Owner == demoOwner:
			return true, nil
		case refused != nil && refused.Code == http.StatusForbidden:
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
			q.Caller, key = tenant.Bearer(name), name
		} else {
			q.Caller = tenant.Subject(authenticationv1.UserInfo{Username: name, UID: "caller-0", Groups: []string{"caller-2"}})
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
