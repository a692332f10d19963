// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"time"

	"github.com/sandbar-dev/sandbar/dataplane/refusal"
)

// What follows lets tests of the data plane as a whole bring about in a moment what time and chance bring.

// PurgeForTest forgets all answers of kcp, as time does.
func (a *Authorizer) PurgeForTest() { a.answers.Purge() }

// KeepForTest keeps an answer as if kcp had given it now.
func (a *Authorizer) KeepForTest(q Question, g Grant, refused *refusal.Error, lasts time.Duration) {
	now := time.Now()
	a.answers.Add(q.key(), answer{grant: g, refused: refused, workspace: q.Ref.Workspace, asked: now, expires: now.Add(lasts)})
}

// HoldForTest puts a question that is not answered until end is called, and with g or refused then.
func (a *Authorizer) HoldForTest(q Question, g Grant, refused *refusal.Error) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	key := q.key()
	a.flights.DoChan(string(key[:]), func() (any, error) {
		<-ctx.Done()
		return answer{grant: g, refused: refused}, nil
	})
	return cancel
}

// AgeForTest makes what kcp has said of tokens older than an answer is used again.
func (a *Authorizer) AgeForTest() {
	for _, key := range a.who.identities.Keys() {
		found, _ := a.who.identities.Get(key)
		found.asked = time.Now().Add(-allowTTL - time.Second)
		a.who.identities.Add(key, found)
	}
}

// UnderWayForTest counts the questions that callers have put to kcp and that are not answered.
func (a *Authorizer) UnderWayForTest() int {
	a.callers.mu.Lock()
	defer a.callers.mu.Unlock()
	var n int
	for _, asking := range a.callers.asking {
		n += asking
	}
	return n
}

// ChangedForTest reports whether a workspace's binding is known to have changed.
func (a *Authorizer) ChangedForTest(cluster string) bool { return a.changed.Contains(cluster) }

// CountedForTest returns who a question counts for.
func (a *Authorizer) CountedForTest(ctx context.Context, q Question) CountedCaller {
	found, _ := a.who.identify(ctx, q, time.Time{})
	return found.CountedCaller
}
