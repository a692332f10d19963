// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/kcp-dev/logicalcluster/v3"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/semaphore"
	"golang.org/x/sync/singleflight"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/sandbar-dev/sandbar/dataplane/refusal"
	"github.com/sandbar-dev/sandbar/dataplane/spans"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/tenant"
)

const (
	// allowTTL and denyTTL bound how long an answer of kcp is used again: a right that was
	// withdrawn ends within allowTTL, one that was granted works within denyTTL.
	allowTTL = 10 * time.Second
	denyTTL  = 2 * time.Second
	// RecheckAge is how old an answer of kcp may be that lets a request go on which lasts. It lets a
	// caller's streams share an answer.
	RecheckAge = 5 * time.Second
	// reviewTimeout bounds one round of questions to kcp.
	reviewTimeout = 10 * time.Second
	// newBinding is how long after a workspace has bound the export a no is not kept: kcp says no
	// until all of it has seen the binding and the roles that are made along with it.
	newBinding = 10 * time.Second
	// changedClusters bounds how many workspaces are remembered as changed.
	changedClusters = 8192
)

// Grant is a permission to go on, and which object it is for.
type Grant struct {
	// Owner is the tenant's object. It has no UID when the caller may use the verb but not read the
	// instance (AuthorizeSubresource only).
	Owner placement.Owner
	// Created is when the tenant's object was created, and Deleting is set when it has a deletion timestamp.
	Created  time.Time
	Deleting bool
	// PreviewsNotBefore is what the tenant wrote on its object: preview URLs signed before it
	// are void. Zero if nothing was written.
	PreviewsNotBefore time.Time
	// Cached is set when the answer is not from this request's own questions.
	Cached bool
}

// answer is what the cache holds: a grant or a refusal, until a point in time.
type answer struct {
	grant   Grant
	refused *refusal.Error
	// workspace is where the question was about.
	workspace string
	// asked is when kcp was asked: what came to pass later may not be in the answer.
	asked   time.Time
	expires time.Time
}

// Key is what an answer is kept under; see Question.
type Key [sha256.Size]byte

// Authorizer asks kcp, as the caller, whether a request may go on.
type Authorizer struct {
	tenant  *tenant.Client
	bound   *tenant.VirtualWorkspace
	mode    Mode
	metrics *Metrics
	// who says whose a token is, and callers bounds what one caller asks.
	who     *tokenReviewer
	callers *CallerLimiter
	// answers is bounded by its size; entries say themselves when they end. (An LRU with one
	// lifetime for all would need two caches, and its clean-up a goroutine that never stops.)
	answers *lru.Cache[Key, answer]
	flights singleflight.Group
	// changed are the logical clusters whose binding has changed, and when. What kcp said of
	// them before is not used again.
	changed *lru.Cache[string, time.Time]
	// slots bounds how many rounds of questions are under way, so that a flood of unknown
	// tokens does not become a flood on kcp.
	slots *semaphore.Weighted
}

// New returns an authorizer that asks kcp through c, and through bound about callers without a token.
func New(c *tenant.Client, bound *tenant.VirtualWorkspace, opts Options, callers *CallerLimiter, m *Metrics) (*Authorizer, error) {
	answers, err := lru.New[Key, answer](opts.CacheSize)
	if err != nil {
		return nil, fmt.Errorf("making the authorization cache: %w", err)
	}
	changed, err := lru.NewWithEvict(changedClusters, func(_ string, at time.Time) {
		if time.Since(at) < allowTTL {
			answers.Purge() // answers that the entry was about may still be there
		}
	})
	if err != nil {
		return nil, fmt.Errorf("making the list of changed workspaces: %w", err)
	}
	slots := semaphore.NewWeighted(int64(opts.Concurrency))
	who, err := newTokenReviewer(c.WhoAmI, callers, slots, opts, m)
	if err != nil {
		return nil, err
	}
	return &Authorizer{
		tenant: c, bound: bound, mode: opts.Mode, metrics: m, who: who, callers: callers, answers: answers, changed: changed, slots: slots,
	}, nil
}

// OnIdentified sets what is told who the caller with a key is when kcp has said so; nil for nothing.
// Set it before the first question.
func (a *Authorizer) OnIdentified(known func(Key, authenticationv1.UserInfo)) {
	a.who.known = known
}

// Authorize answers a question, from the cache if it can.
func (a *Authorizer) Authorize(ctx context.Context, q Question) (Grant, *refusal.Error) {
	key := q.key()
	if found, ok := a.cached(key, time.Time{}); ok {
		a.metrics.cacheHit.Inc()
		g := found.grant
		g.Cached = true
		return a.standing(q, g, found.refused)
	}
	a.metrics.cacheMiss.Inc()
	return a.refresh(ctx, q, key, "")
}

// Again answers a question without the cache, for a caller that found the cached answer to
// disagree with the runtime cluster.
func (a *Authorizer) Again(ctx context.Context, q Question) (Grant, *refusal.Error) {
	return a.refresh(ctx, q, q.key(), "")
}

// Since answers a question as kcp has answered it after a point in time, or answers it now. All
// who ask since the same moment share one flight; none of them joins one that began before it.
func (a *Authorizer) Since(ctx context.Context, q Question, at time.Time) (Grant, *refusal.Error) {
	key := q.key()
	if found, ok := a.cached(key, at); ok {
		g := found.grant
		g.Cached = true
		return a.standing(q, g, found.refused)
	}
	flight := ""
	if time.Since(at) < RecheckAge {
		flight = strconv.FormatInt(at.UnixNano(), 10)
	}
	return a.refresh(ctx, q, key, flight)
}

// Counted returns who a caller's questions are counted for, as kcp has said or says now.
func (a *Authorizer) Counted(ctx context.Context, q Question) (CallerKey, *refusal.Error) {
	who, refused := a.who.identify(ctx, q, time.Time{})
	return who.Key, refused
}

// cached finds an answer that kcp gave after a point in time and that still counts.
func (a *Authorizer) cached(key Key, since time.Time) (answer, bool) {
	found, ok := a.answers.Get(key)
	if !ok || !time.Now().Before(found.expires) || found.asked.Before(since) {
		return answer{}, false
	}
	if found.refused != nil && a.bound.IsNew(found.workspace, newBinding) {
		return answer{}, false // it was kept before the binding was seen
	}
	if at, ok := a.changed.Peek(found.grant.Owner.Cluster); ok && !found.asked.After(at) {
		return answer{}, false
	}
	return found, true
}

// Forget drops what kcp has said of a workspace.
func (a *Authorizer) Forget(cluster string, now time.Time) { a.changed.Add(cluster, now) }

// standing refuses what kcp, or the cache, grants and what has ended nevertheless: a grant in a
// workspace whose binding is going (its objects are still there then, and kcp still lets the
// tenant at them), and one by a preview link that was revoked. Every answer goes through it.
func (a *Authorizer) standing(q Question, g Grant, refused *refusal.Error) (Grant, *refusal.Error) {
	if refused == nil && a.bound.Ended(g.Owner.Cluster) {
		return Grant{}, refusal.Forbidden()
	}
	return q.unlessRevoked(g, refused)
}

// refresh asks kcp, once for all who wait for the same key. The flight has a context of its
// own: the caller who started it may go away, and the others still get their answer.
// flight sets those apart who must not be given an answer to an earlier question.
func (a *Authorizer) refresh(ctx context.Context, q Question, key Key, flight string) (Grant, *refusal.Error) {
	result := a.flights.DoChan(string(key[:])+flight, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reviewTimeout)
		defer cancel()
		return a.answer(ctx, q, key), nil
	})
	select {
	case <-ctx.Done():
		return Grant{}, abandoned(ctx)
	case r := <-result:
		found, _ := r.Val.(answer)
		return a.standing(q, found.grant, found.refused)
	}
}

// answer asks kcp: first whose the credential is, and then what they may do.
func (a *Authorizer) answer(ctx context.Context, q Question, key Key) answer {
	who, refused := a.who.identify(ctx, q, time.Time{})
	if refused != nil {
		return answer{refused: refused}
	}
	leave, refused := a.callers.enter(who.CountedCaller)
	if refused != nil {
		return answer{refused: refused}
	}
	var found answer
	defer func() { leave(found.refused) }()
	if err := a.slots.Acquire(ctx, 1); err != nil {
		found.refused = refusal.Unavailable(refusal.CauseKcp, "too many callers are being authorized at once: try again", time.Second, err)
		return found
	}
	started := time.Now()
	found = a.ask(ctx, q)
	a.slots.Release(1)
	found.asked, found.workspace = started, q.Ref.Workspace
	found.refused = a.alike(ctx, q, who, found.refused)
	a.metrics.authorized(found.refused, time.Since(started))
	a.keep(key, found)
	return found
}

// alike makes of every no the same one. What kcp says in a workspace to a caller without access
// depends on whether there is such a workspace: 401 or 403 by a shard, 403 or 404 by a front proxy.
// Whether it is a 401 or a 403 here follows from the token alone.
func (a *Authorizer) alike(ctx context.Context, q Question, who identity, refused *refusal.Error) *refusal.Error {
	if refused == nil || !refused.HidesWhatExists() {
		return refused
	}
	if _, byName := q.Caller.User(); byName {
		return refusal.ForbiddenByName(refused.Cause)
	}
	if recent := time.Now().Add(-allowTTL); who.asked.Before(recent) {
		if _, invalid := a.who.identify(ctx, q, recent); invalid != nil {
			return invalid
		}
	}
	return refusal.Forbidden()
}

func (a *Authorizer) keep(key Key, found answer) {
	switch {
	case found.refused == nil:
		found.expires = time.Now().Add(allowTTL)
	case found.refused.Code >= http.StatusInternalServerError:
		return // an error is no answer; the next request asks anew
	case a.bound.IsNew(found.workspace, newBinding):
		return // kcp's own caches may not know the binding yet; a moment later the answer is another
	default:
		found.expires = time.Now().Add(denyTTL)
	}
	a.answers.Add(key, found)
}

// ask puts both questions to kcp at once.
func (a *Authorizer) ask(ctx context.Context, q Question) answer {
	if q.WorkspaceOnly {
		return answer{refused: judgeReview(a.review(ctx, q))}
	}
	type read struct {
		obj    *metav1.PartialObjectMetadata
		answer tenant.Answer
	}
	reads := make(chan read, 1)
	go func() {
		ctx, span := spans.Child(ctx, "kcp get", trace.SpanKindClient)
		obj, got := a.tenant.GetMetadata(ctx, q.Caller, q.Ref)
		span.End()
		reads <- read{obj, got}
	}()
	review := a.review(ctx, q)
	got := <-reads
	a.metrics.Called(CallGet, got.answer.Outcome)
	if a.mode == Subresource && review.Outcome == tenant.Allowed && got.answer.Outcome == tenant.Denied && isClusterName(q.Ref.Workspace) {
		return answer{grant: Grant{Owner: placement.Owner{Cluster: q.Ref.Workspace}}}
	}
	if refused := Judge(review, got.answer, q.Declared); refused != nil {
		return answer{refused: refused}
	}
	cluster := logicalcluster.From(got.obj)
	if cluster.Empty() {
		return answer{refused: refusal.Unavailable(refusal.CauseKcp, "the workspace's API answered without a logical cluster: ask the operator", 0, nil)}
	}
	return answer{grant: Grant{
		Owner:             placement.Owner{Cluster: cluster.String(), UID: got.obj.GetUID()},
		Created:           got.obj.GetCreationTimestamp().Time,
		Deleting:          got.obj.GetDeletionTimestamp() != nil,
		PreviewsNotBefore: previewsNotBefore(got.obj.GetAnnotations()),
	}}
}

// previewsNever is later than any preview URL is signed.
var previewsNever = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// previewsNotBefore reads the annotation with which a tenant voids preview URLs. What cannot be
// read voids all, also those still to be signed: whoever wrote it wanted some to end.
func previewsNotBefore(annotations map[string]string) time.Time {
	value, ok := annotations[placement.AnnotationPreviewsNotBefore]
	if !ok {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339, value)
	if err != nil {
		return previewsNever
	}
	return at
}

func (a *Authorizer) review(ctx context.Context, q Question) tenant.Answer {
	var spec authorizationv1.SelfSubjectAccessReviewSpec
	if q.WorkspaceOnly {
		spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Path: "/", Verb: "access"}
	} else {
		spec.ResourceAttributes = &authorizationv1.ResourceAttributes{
			Group: q.Ref.Group, Version: q.Ref.Version, Resource: q.Ref.Resource, Subresource: q.Subresource,
			Namespace: q.Ref.Namespace, Name: q.Ref.Name, Verb: q.Verb,
		}
		if a.mode == InstanceGet {
			// Asked all the same: it tells a workspace that does not exist from an instance
			// that does not.
			spec.ResourceAttributes.Subresource, spec.ResourceAttributes.Verb = "", "get"
		}
	}
	ctx, span := spans.Child(ctx, "kcp review", trace.SpanKindClient)
	defer span.End()
	got := a.tenant.Review(ctx, q.Caller, q.Ref.Workspace, spec)
	a.metrics.Called(callReview, got.Outcome)
	return got
}

// Judge turns kcp's two answers into a refusal, or nil to go on.
//
//	review        read              answer
//	unauthorized  any               401 (so does an unauthorized read)
//	claim missing any               403 (so does the read)
//	unavailable   any               503, never a permission
//	no access     any               403 (so does the read)
//	allowed       allowed           go on
//	allowed       not found         404
//	allowed       denied            403
//	denied        allowed, missing  404 if the kind has no such verb, else 403
//	denied        denied            403
func Judge(review, read tenant.Answer, declared bool) *refusal.Error {
	switch {
	case review.Outcome == tenant.Unauthorized || read.Outcome == tenant.Unauthorized:
		return refusal.Unauthorized(refusal.CauseBadIdentity)
	case review.Outcome == tenant.ClaimNotAccepted || read.Outcome == tenant.ClaimNotAccepted:
		return refusal.ForbiddenByName(refusal.CauseClaim)
	case review.Outcome == tenant.Unavailable:
		return kcpUnavailable(review)
	case review.Outcome == tenant.NoAccess || read.Outcome == tenant.NoAccess:
		return refusal.Forbidden() // whatever the read says of a workspace that may not be there
	case review.Outcome == tenant.Allowed:
		switch read.Outcome {
		case tenant.Allowed:
			return nil
		case tenant.NotFound:
			return refusal.NotFound(refusal.CauseNoInstance)
		case tenant.Denied:
			return refusal.Forbidden()
		default:
			return kcpUnavailable(read)
		}
	case declared || read.Outcome == tenant.Denied:
		return refusal.Forbidden()
	case read.Outcome == tenant.Allowed || read.Outcome == tenant.NotFound:
		return refusal.NotFound(refusal.CauseNoVerb)
	}
	return kcpUnavailable(read)
}

func judgeReview(review tenant.Answer) *refusal.Error {
	return Judge(review, tenant.Answer{Outcome: tenant.Allowed}, true)
}

func kcpUnavailable(a tenant.Answer) *refusal.Error {
	return refusal.Unavailable(refusal.CauseKcp, "the workspace's API did not answer whether you may: try again", a.RetryAfter, a.Err)
}

// abandoned says why nobody waits for an answer of kcp any more: the caller has left, or kcp has taken
// too long to say whose the token is, which one question waits for inside another.
func abandoned(ctx context.Context) *refusal.Error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return kcpUnavailable(tenant.Answer{Err: ctx.Err()})
	}
	return ClientGone(context.Cause(ctx))
}

// ClientGone is for a caller that left; nobody reads it but the access log.
func ClientGone(err error) *refusal.Error {
	return &refusal.Error{Code: refusal.StatusClientClosed, Cause: refusal.CauseClientGone, Err: err, Message: "the request was cancelled"}
}

// unlessRevoked refuses what a preview link or session allows if the tenant has revoked it, which
// is written on the object; so who may not read the object has no previews.
func (q Question) unlessRevoked(g Grant, refused *refusal.Error) (Grant, *refusal.Error) {
	switch {
	case refused != nil || q.LinkIssued.IsZero():
		return g, refused
	case g.Owner.UID == "":
		return Grant{}, refusal.Forbidden()
	case !q.LinkIssued.After(g.PreviewsNotBefore):
		return Grant{}, refusal.PreviewRevoked()
	}
	return g, nil
}

// isClusterName reports whether a workspace is given by its logical cluster's name.
func isClusterName(workspace string) bool { return len(validation.IsDNS1123Label(workspace)) == 0 }
