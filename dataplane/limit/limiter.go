// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"crypto/sha256"
	"fmt"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"

	"github.com/sandbar-dev/sandbar/dataplane/refusal"
)

// Limiter admits requests. Its memory is bounded by the requests in flight and by rateEntries.
type Limiter struct {
	// limits are those in force; they may change between two calls.
	limits func() *Limits
	rates  *lru.Cache[slot, *rate.Limiter]

	mu       sync.Mutex
	inFlight map[slot]int
}

// slot is what is counted: requests or streams, of an instance or a workspace, or both where it is
// their rate. A workspace's name must not be taken for a UID.
type slot struct {
	key       string
	workspace bool
	stream    bool
	// claims is set where it is the rate of claims of a workspace, or of a caller.
	claims bool
}

// NewLimiter returns a limiter that asks limits for those in force at each call.
func NewLimiter(limits func() *Limits) (*Limiter, error) {
	rates, err := lru.New[slot, *rate.Limiter](rateEntries)
	if err != nil {
		return nil, fmt.Errorf("making the rate limits: %w", err)
	}
	return &Limiter{limits: limits, rates: rates, inFlight: map[slot]int{}}, nil
}

// Admit lets a request of an instance go on, or refuses it. release must be called when the
// request has ended.
func (l *Limiter) Admit(workspace, instance string, stream bool) (release func(), refused *refusal.Error) {
	limits := l.limits()
	// The instance's first: what is refused for it must not cost the workspace's others theirs.
	if wait := l.wait(slot{key: instance}, limits.InstanceRate, limits.InstanceBurst); wait > 0 {
		return nil, refusal.TooMany(refusal.CauseRate, fmt.Sprintf("the instance gets more than %d requests per second (%d at once)", limits.InstanceRate, limits.InstanceBurst), wait)
	}
	if wait := l.wait(slot{key: workspace, workspace: true}, limits.WorkspaceRate, limits.WorkspaceBurst); wait > 0 {
		return nil, refusal.TooMany(refusal.CauseRate, fmt.Sprintf("the workspace starts more than %d requests per second (%d at once)", limits.WorkspaceRate, limits.WorkspaceBurst), wait)
	}
	own, all := slot{key: instance, stream: stream}, slot{key: workspace, workspace: true, stream: stream}
	ownLimit, allLimit := limits.InstanceRequests, limits.WorkspaceRequests
	cause, what := refusal.CauseInFlight, "requests in flight"
	if stream {
		ownLimit, allLimit = limits.InstanceStreams, limits.WorkspaceStreams
		cause, what = refusal.CauseStreams, "streams"
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.inFlight[own] >= ownLimit {
		return nil, refusal.TooMany(cause, fmt.Sprintf("the instance has %d %s, which is its limit: end some first", ownLimit, what), time.Second)
	}
	if l.inFlight[all] >= allLimit {
		return nil, refusal.TooMany(cause, fmt.Sprintf("the workspace has %d %s, which is its limit: end some first", allLimit, what), time.Second)
	}
	l.inFlight[own]++
	l.inFlight[all]++
	return (&admission{limiter: l, slots: [2]slot{own, all}}).release, nil
}

// AdmitClaim counts a claim of a caller in a workspace, or refuses it. caller is a hash of who it is.
func (l *Limiter) AdmitClaim(workspace string, caller [sha256.Size]byte) *refusal.Error {
	limits := l.limits()
	// The caller's first: what is refused for it must not cost the workspace's others theirs.
	if wait := l.wait(slot{key: string(caller[:]), claims: true}, limits.CallerClaimRate, limits.CallerClaimBurst); wait > 0 {
		return refusal.TooMany(refusal.CauseClaimRate, fmt.Sprintf("you claim more than %d Sandboxes per second (%d at once): send the request again after Retry-After, or ask for several at once with a SandboxClaim", limits.CallerClaimRate, limits.CallerClaimBurst), wait)
	}
	if wait := l.wait(slot{key: workspace, workspace: true, claims: true}, limits.WorkspaceClaimRate, limits.WorkspaceClaimBurst); wait > 0 {
		return refusal.TooMany(refusal.CauseClaimRate, fmt.Sprintf("more than %d Sandboxes per second (%d at once) are claimed in the workspace: send the request again after Retry-After", limits.WorkspaceClaimRate, limits.WorkspaceClaimBurst), wait)
	}
	return nil
}

// UnderWay counts the instances and workspaces that have requests or streams under way.
func (l *Limiter) UnderWay() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.inFlight)
}

// admission holds the slots of one request.
type admission struct {
	limiter  *Limiter
	slots    [2]slot
	released bool
}

// release gives the slots back; a second call must not give back another's.
func (a *admission) release() {
	l := a.limiter
	l.mu.Lock()
	defer l.mu.Unlock()
	if a.released {
		return
	}
	a.released = true
	for _, s := range a.slots {
		if l.inFlight[s]--; l.inFlight[s] == 0 {
			delete(l.inFlight, s)
		}
	}
}

// wait tells how long a workspace or an instance must wait until its next request may start; zero
// for not at all.
func (l *Limiter) wait(of slot, perSecond, burst int) time.Duration {
	bucket, ok := l.rates.Get(of)
	if !ok {
		bucket = rate.NewLimiter(rate.Limit(perSecond), burst)
		if other, found, _ := l.rates.PeekOrAdd(of, bucket); found {
			bucket = other
		}
	}
	KeepUp(bucket, perSecond, burst)
	if bucket.Allow() {
		return 0
	}
	reservation := bucket.Reserve()
	delay := reservation.Delay()
	if delay > 0 {
		reservation.Cancel()
	}
	return delay
}

// KeepUp brings a bucket up to date with limits that may have changed since it was made.
func KeepUp(bucket *rate.Limiter, perSecond, burst int) {
	if bucket.Limit() != rate.Limit(perSecond) {
		bucket.SetLimit(rate.Limit(perSecond))
	}
	if bucket.Burst() != burst {
		bucket.SetBurst(burst)
	}
}
