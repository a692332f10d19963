// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/semaphore"
	"golang.org/x/sync/singleflight"
	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/sandbar-dev/sandbar/dataplane/refusal"
	"github.com/sandbar-dev/sandbar/tenant"
)

// Whose a token is, kcp is asked before anything is asked about a workspace, and in a workspace
// that always exists. Two things follow from that:
//
//   - Whether a token is good does not depend on the workspace of the request, so that the answer
//     to a made-up one does not tell which workspaces exist: a shard and a front proxy answer 401
//     for those that do, and 403 or 404 for others.
//   - Questions count for the owner of a token, from the second one on (callerlimit.go).
const (
	// IdentityTTL is how long it is taken for known whose a token is. That does not change, but the
	// entries do not hold what nobody uses.
	IdentityTTL = 5 * time.Minute
	// identityEntries bounds the tokens of which that is known.
	identityEntries = 16384
	// rejectedEntries bounds those that kcp does not know. They are kept apart, so that a flood of
	// them does not push out the others.
	rejectedEntries = 4096
	// identityWarning is how often the log says that the identity workspace cannot be used.
	identityWarning = time.Minute
)

// identity is what is known of a caller beside the credential.
type identity struct {
	CountedCaller
	// asked is when kcp said so.
	asked time.Time
}

// WhoAmI asks kcp who a caller is; see tenant.Client.WhoAmI.
type WhoAmI func(ctx context.Context, caller tenant.Caller, workspace string) (authenticationv1.UserInfo, tenant.Answer)

// tokenReviewer asks kcp whose a token is.
type tokenReviewer struct {
	ask     WhoAmI
	callers *CallerLimiter
	slots   *semaphore.Weighted
	metrics *Metrics
	log     *slog.Logger
	// workspace is where kcp is asked: every authenticated user has access to it.
	workspace string
	// perWorkspace is set when a workspace may know users whom kcp as a whole does not.
	perWorkspace bool
	// known, if set, is told who the caller with a key is.
	known func(Key, authenticationv1.UserInfo)

	identities *lru.Cache[Key, identity]
	rejected   *lru.Cache[Key, time.Time]
	flights    singleflight.Group
	warned     atomic.Int64
}

func newTokenReviewer(ask WhoAmI, callers *CallerLimiter, slots *semaphore.Weighted, opts Options, m *Metrics) (*tokenReviewer, error) {
	identities, err := lru.New[Key, identity](identityEntries)
	if err != nil {
		return nil, fmt.Errorf("making the cache of callers: %w", err)
	}
	rejected, err := lru.New[Key, time.Time](rejectedEntries)
	if err != nil {
		return nil, fmt.Errorf("making the cache of unknown tokens: %w", err)
	}
	return &tokenReviewer{
		ask: ask, callers: callers, slots: slots, metrics: m, log: opts.Logger,
		workspace: opts.IdentityWorkspace, perWorkspace: opts.WorkspaceAuthentication,
		identities: identities, rejected: rejected,
	}, nil
}

// identify finds out who is counted for a question, by what kcp has said since a point in time. It
// refuses a token that kcp does not know, and a caller whose address has shown too many of these.
func (a *tokenReviewer) identify(ctx context.Context, q Question, since time.Time) (identity, *refusal.Error) {
	if user, vouched := q.Caller.User(); vouched {
		return identity{CountedCaller: CountedUser("", user), asked: time.Now()}, nil
	}
	key := Key(q.Caller.CredentialKey())
	if found, refused := a.find(key, q, since); refused != nil || !found.asked.IsZero() {
		return found, refused
	}
	flight := a.flightKey(key, q)
	result := a.flights.DoChan(string(flight[:]), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reviewTimeout)
		defer cancel()
		found, refused := a.verify(ctx, key, q)
		return verified{found, refused}, nil
	})
	select {
	case <-ctx.Done():
		return identity{}, abandoned(ctx)
	case r := <-result:
		got, _ := r.Val.(verified)
		return got.identity, got.refused
	}
}

type verified struct {
	identity identity
	refused  *refusal.Error
}

// find looks a token up among those that kcp has accepted or rejected.
func (a *tokenReviewer) find(key Key, q Question, since time.Time) (identity, *refusal.Error) {
	for _, key := range [...]Key{key, inWorkspace(key, q.Ref.Workspace)} {
		if found, ok := a.identities.Get(key); ok && time.Since(found.asked) < IdentityTTL && !found.asked.Before(since) {
			return found, nil
		}
		if !a.perWorkspace {
			break
		}
	}
	if at, ok := a.rejected.Get(a.flightKey(key, q)); ok && time.Since(at) < denyTTL && !at.Before(since) {
		return identity{}, refusal.Unauthorized(refusal.CauseBadIdentity)
	}
	return identity{}, nil
}

// verify asks kcp, at the cost of the address: of a caller who is not known nothing else can be
// counted.
func (a *tokenReviewer) verify(ctx context.Context, key Key, q Question) (identity, *refusal.Error) {
	leave, refused := a.callers.enter(CountedAddress(q.From))
	if refused != nil {
		return identity{}, refused
	}
	defer func() { leave(refused) }()
	if err := a.slots.Acquire(ctx, 1); err != nil {
		refused = refusal.Unavailable(refusal.CauseKcp, "too many callers are being authorized at once: try again", time.Second, err)
		return identity{}, refused
	}
	defer a.slots.Release(1)
	found, refused := a.verifyIn(ctx, key, q.Caller, a.workspace, "")
	if a.perWorkspace && refused != nil && refused.Cause == refusal.CauseBadIdentity {
		found, refused = a.verifyIn(ctx, inWorkspace(key, q.Ref.Workspace), q.Caller, q.Ref.Workspace, q.Ref.Workspace)
	}
	switch {
	case refused == nil && !found.verified:
		found.CountedCaller = CountedAddress(q.From)
	case refused != nil && refused.Cause == refusal.CauseBadIdentity:
		a.identities.Remove(key)
		a.identities.Remove(inWorkspace(key, q.Ref.Workspace))
		a.rejected.Add(a.flightKey(key, q), time.Now())
	}
	return found, refused
}

// verifyIn asks kcp in one workspace. origin is empty if its answer holds for all of kcp.
func (a *tokenReviewer) verifyIn(ctx context.Context, key Key, caller tenant.Caller, workspace, origin string) (identity, *refusal.Error) {
	asked := time.Now()
	user, got := a.ask(ctx, caller, workspace)
	a.metrics.Called(CallWho, got.Outcome)
	switch {
	case got.Outcome == tenant.Allowed:
		found := identity{CountedCaller: CountedUser(origin, user), asked: asked}
		if a.known != nil {
			a.known(Key(caller.CredentialKey()), user)
		}
		if !a.callers.learned(found.CountedCaller) {
			// Another of its tokens. It is not remembered, and the address pays for it, or there
			// would be no end to the questions whose tokens they are.
			return identity{}, refusal.TooMany(refusal.CauseQuestionRate, "the workspace's API has to be asked about too many requests from you: use fewer tokens", time.Second)
		}
		a.identities.Add(key, found)
		return found, nil
	case got.Outcome == tenant.Unauthorized, origin != "" && got.Outcome != tenant.Unavailable:
		return identity{}, refusal.Unauthorized(refusal.CauseBadIdentity)
	case got.Outcome == tenant.Unavailable:
		return identity{}, kcpUnavailable(got)
	}
	a.warn()
	return identity{asked: asked}, nil
}

// warn says that the identity workspace is none. Then nobody's token is verified before the
// workspace is asked, all callers of an address share its limits, and who is refused is told 403.
func (a *tokenReviewer) warn() {
	now := time.Now().UnixNano()
	if last := a.warned.Load(); now-last < int64(identityWarning) || !a.warned.CompareAndSwap(last, now) {
		return
	}
	a.log.Error("kcp lets an authenticated user not ask who they are in the identity workspace: callers are counted by their address. Give system:authenticated access to it, or name another with --identity-workspace",
		"workspace", a.workspace)
}

// flightKey is what one question to kcp is about: the credential, and the workspace where a
// workspace may know what kcp does not.
func (a *tokenReviewer) flightKey(key Key, q Question) Key {
	if a.perWorkspace {
		return inWorkspace(key, q.Ref.Workspace)
	}
	return key
}

// inWorkspace is the key of a credential in one workspace.
func inWorkspace(key Key, workspace string) Key {
	return sha256.Sum256(append(key[:], workspace...))
}
