// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/netip"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"
)

// askerEntries bounds the callers of which something is remembered. One that falls out starts
// with a full burst again.
const askerEntries = 16384

// askers bound what one caller may cost kcp. The limits of instances and workspaces count only
// requests that kcp has allowed; without a bound here, a flood of made-up tokens, or of names that
// a stranger makes up, would become a flood on kcp, and would hold all the slots for questions
// that other tenants need.
//
// A caller is whom a front proxy or a preview link vouches for, or the credential, if kcp has
// accepted it before; else the address, because whoever makes tokens up has as many as it likes.
// So a stranger behind the same hub or NAT as a tenant spends the address's share and not the
// tenant's.
type askers struct {
	limits func() *Limits
	// known are the credentials that kcp has accepted.
	known *lru.Cache[asker, struct{}]
	// denials are the buckets of those who were told no.
	denials *lru.Cache[asker, *rate.Limiter]

	mu     sync.Mutex
	asking map[asker]int
}

// asker is the hash of a credential or of an address.
type asker [sha256.Size]byte

func newAskers(limits func() *Limits) (*askers, error) {
	known, err := lru.New[asker, struct{}](askerEntries)
	if err != nil {
		return nil, fmt.Errorf("making the list of known callers: %w", err)
	}
	denials, err := lru.New[asker, *rate.Limiter](askerEntries)
	if err != nil {
		return nil, fmt.Errorf("making the limits of callers: %w", err)
	}
	return &askers{limits: limits, known: known, denials: denials, asking: map[asker]int{}}, nil
}

// enter lets a caller put a question to kcp, or refuses it. leave must be called with what kcp
// said.
func (a *askers) enter(q question) (leave func(*refusal), refused *refusal) {
	limits := a.limits()
	credential := asker(q.caller.CredentialKey())
	who := credential
	// Who is known by name did not make the name up: a certificate or a seal of ours stands for it.
	if _, vouched := q.caller.User(); !vouched && !a.known.Contains(credential) {
		who = sha256.Sum256([]byte("address\x00" + addressOf(q.from)))
	}
	if bucket, ok := a.denials.Get(who); ok {
		keepUp(bucket, limits.DeniedRate, limits.DeniedBurst)
		if left := bucket.Tokens(); left < 1 {
			wait := time.Duration((1 - left) / float64(limits.DeniedRate) * float64(time.Second))
			return nil, tooMany(causeDeniedRate, fmt.Sprintf("more than %d requests per second (%d at once) from you or your address were not allowed", limits.DeniedRate, limits.DeniedBurst), wait)
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.asking[who] >= limits.CallerQuestions {
		return nil, tooMany(causeQuestions, fmt.Sprintf("%d requests from you or your address are being authorized, which is the limit: wait for some", limits.CallerQuestions), time.Second)
	}
	a.asking[who]++
	return func(answer *refusal) { a.leave(who, credential, answer) }, nil
}

func (a *askers) leave(who, credential asker, answer *refusal) {
	a.mu.Lock()
	if a.asking[who]--; a.asking[who] == 0 {
		delete(a.asking, who)
	}
	a.mu.Unlock()
	switch {
	case answer == nil:
		a.known.Add(credential, struct{}{})
		return
	case answer.code >= http.StatusInternalServerError:
		return // kcp said nothing
	case answer.code == http.StatusUnauthorized:
		a.known.Remove(credential)
	default:
		a.known.Add(credential, struct{}{})
	}
	limits := a.limits()
	bucket := rate.NewLimiter(rate.Limit(limits.DeniedRate), limits.DeniedBurst)
	if other, found, _ := a.denials.PeekOrAdd(who, bucket); found {
		bucket = other
	}
	// Taken after the answer and not before the question: those who are allowed pay nothing.
	// The bucket can go below zero, by no more than the questions under way.
	bucket.Reserve()
}

// addressOf is the address that a connection comes from; for IPv6 its /64 network, because one
// host has all of it.
func addressOf(remote string) string {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return remote
	}
	ip := at.Addr().Unmap().WithZone("")
	if ip.Is6() {
		network, err := ip.Prefix(64)
		if err == nil {
			return network.String()
		}
	}
	return ip.String()
}
