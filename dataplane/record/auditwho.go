// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"context"
	"fmt"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/sandbar-dev/sandbar/dataplane/access"
	"github.com/sandbar-dev/sandbar/tenant"
)

const (
	// whoTTL is how long the name of a token is used again. A token's name does not change; a
	// person's groups do. It is longer than what is known of a caller counts for authorization, so
	// that mostly that is found here.
	whoTTL = access.IdentityTTL + time.Minute
	// whoNoAnswerTTL keeps a kcp that does not say who a caller is from being asked with each
	// request.
	whoNoAnswerTTL = 10 * time.Second
	// whoEntries bounds the callers whose names are kept.
	whoEntries = 16384
	// whoLookups bounds the callers about whom kcp is asked at once; lines of others have no
	// user.
	whoLookups = 64
	// whoTimeout bounds one question. Until then a line may wait, but no request.
	whoTimeout = 5 * time.Second
)

// names tells who callers are, for the audit log alone: what a caller may do is asked as the
// caller and needs no name.
type names struct {
	ask     access.WhoAmI
	metrics *access.Metrics
	known   *lru.Cache[access.Key, knownName]

	mu sync.Mutex
	// waiting are those who wait for the answer about a caller; there is one question per key.
	waiting map[access.Key][]func(auditUser)
}

type knownName struct {
	user    auditUser
	expires time.Time
}

func newNames(ask access.WhoAmI, m *access.Metrics) (*names, error) {
	known, err := lru.New[access.Key, knownName](whoEntries)
	if err != nil {
		return nil, fmt.Errorf("making the cache of callers' names: %w", err)
	}
	return &names{ask: ask, metrics: m, known: known, waiting: map[access.Key][]func(auditUser){}}, nil
}

// find returns who the caller with a key is, if that is known.
func (n *names) find(key access.Key) (auditUser, bool) {
	found, ok := n.known.Get(key)
	return found.user, ok && time.Now().Before(found.expires)
}

// Put takes note of who the caller with a key is: whoever found out has spared a question.
func (n *names) Put(key access.Key, user authenticationv1.UserInfo) {
	n.known.Add(key, knownName{user: newAuditUser(user), expires: time.Now().Add(whoTTL)})
}

// tell calls then with who the caller is, when kcp has said it. It never waits: then may be
// called in another goroutine.
func (n *names) tell(key access.Key, caller tenant.Caller, workspace string, then func(auditUser)) {
	n.mu.Lock()
	if user, ok := n.find(key); ok {
		n.mu.Unlock()
		then(user)
		return
	}
	waiting, asked := n.waiting[key]
	if !asked && len(n.waiting) >= whoLookups {
		n.mu.Unlock()
		then(auditUser{unknown: unknownBusy})
		return
	}
	n.waiting[key] = append(waiting, then)
	if !asked {
		go n.lookUp(key, caller, workspace)
	}
	n.mu.Unlock()
}

func (n *names) lookUp(key access.Key, caller tenant.Caller, workspace string) {
	ctx, cancel := context.WithTimeout(context.Background(), whoTimeout)
	defer cancel()
	user, answer := n.ask(ctx, caller, workspace)
	if _, known := caller.User(); !known {
		n.metrics.Called(access.CallWho, answer.Outcome)
	}
	found := knownName{user: auditUser{unknown: UnknownNoAnswer}, expires: time.Now().Add(whoNoAnswerTTL)}
	if answer.Outcome == tenant.Allowed {
		found = knownName{user: newAuditUser(user), expires: time.Now().Add(whoTTL)}
	}
	n.mu.Lock()
	n.known.Add(key, found)
	waiting := n.waiting[key]
	delete(n.waiting, key)
	n.mu.Unlock()
	for _, then := range waiting {
		then(found.user)
	}
}
