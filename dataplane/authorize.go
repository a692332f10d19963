// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strconv"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/kcp-dev/logicalcluster/v3"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/semaphore"
	"golang.org/x/sync/singleflight"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/tenant"
)

const (
	// allowTTL and denyTTL bound how long an answer of kcp is used again: a right that was
	// withdrawn ends within allowTTL, one that was granted works within denyTTL.
	allowTTL = 10 * time.Second
	denyTTL  = 2 * time.Second
	// reviewTimeout bounds one round of questions to kcp.
	reviewTimeout = 10 * time.Second
	// changedClusters bounds how many workspaces are remembered as changed.
	changedClusters = 8192
)

// AuthorizationMode says which right a caller needs for a verb.
type AuthorizationMode string

// Authorization modes.
const (
	// AuthorizeBoth needs get on the instance and the verb's own subresource.
	AuthorizeBoth AuthorizationMode = "both"
	// AuthorizeSubresource asks for the verb's subresource alone. The instance is still read
	// as the caller, since only that tells its UID: a caller who may not read it must name
	// the workspace by logical cluster name, so that the placement can be found without.
	AuthorizeSubresource AuthorizationMode = "subresource"
	// AuthorizeInstanceGet needs get on the instance and nothing else.
	AuthorizeInstanceGet AuthorizationMode = "instanceGet"
)

// grant is a permission to go on, and which object it is for.
type grant struct {
	// id has no UID when the caller may use the verb but not read the instance
	// (AuthorizeSubresource only).
	id placement.ID
	// deleting is set when the tenant's object has a deletion timestamp.
	deleting bool
	// previewsNotBefore is what the tenant wrote on its object: preview URLs signed before it
	// are void. Zero if nothing was written.
	previewsNotBefore time.Time
	// cached is set when the answer is not from this request's own questions.
	cached bool
}

// answer is what the cache holds: a grant or a refusal, until a point in time.
type answer struct {
	grant   grant
	refused *refusal
	// asked is when kcp was asked: what came to pass later may not be in the answer.
	asked   time.Time
	expires time.Time
}

type cacheKey [sha256.Size]byte

// authorizer asks kcp, as the caller, whether a request may go on.
type authorizer struct {
	tenant  *tenant.Client
	bound   *tenant.VirtualWorkspace
	mode    AuthorizationMode
	metrics *metrics
	// askers bound what one caller asks.
	askers *askers
	// answers is bounded by its size; entries say themselves when they end. (An LRU with one
	// lifetime for all would need two caches, and its clean-up a goroutine that never stops.)
	answers *lru.Cache[cacheKey, answer]
	flights singleflight.Group
	// changed are the logical clusters whose binding has changed, and when. What kcp said of
	// them before is not used again.
	changed *lru.Cache[string, time.Time]
	// slots bounds how many rounds of questions are under way, so that a flood of unknown
	// tokens does not become a flood on kcp.
	slots *semaphore.Weighted
}

func newAuthorizer(c *tenant.Client, bound *tenant.VirtualWorkspace, opts Options, who *askers, m *metrics) (*authorizer, error) {
	answers, err := lru.New[cacheKey, answer](opts.AuthorizationCacheSize)
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
	return &authorizer{
		tenant: c, bound: bound, mode: opts.AuthorizationMode, metrics: m, askers: who, answers: answers, changed: changed,
		slots: semaphore.NewWeighted(int64(opts.AuthorizationConcurrency)),
	}, nil
}

// authorize answers a question, from the cache if it can.
func (a *authorizer) authorize(ctx context.Context, q question) (grant, *refusal) {
	key := q.key()
	if found, ok := a.cached(key, time.Time{}); ok {
		a.metrics.cacheHit.Inc()
		g := found.grant
		g.cached = true
		return a.standing(q, g, found.refused)
	}
	a.metrics.cacheMiss.Inc()
	return a.refresh(ctx, q, key, "")
}

// again answers a question without the cache, for a caller that found the cached answer to
// disagree with the runtime cluster.
func (a *authorizer) again(ctx context.Context, q question) (grant, *refusal) {
	return a.refresh(ctx, q, q.key(), "")
}

// since answers a question as kcp has answered it after a point in time, or answers it now. All
// who ask since the same moment share one flight; none of them joins one that began before it.
func (a *authorizer) since(ctx context.Context, q question, at time.Time) (grant, *refusal) {
	key := q.key()
	if found, ok := a.cached(key, at); ok {
		g := found.grant
		g.cached = true
		return a.standing(q, g, found.refused)
	}
	flight := ""
	if time.Since(at) < recheckAge {
		flight = strconv.FormatInt(at.UnixNano(), 10)
	}
	return a.refresh(ctx, q, key, flight)
}

// cached finds an answer that kcp gave after a point in time and that still counts.
func (a *authorizer) cached(key cacheKey, since time.Time) (answer, bool) {
	found, ok := a.answers.Get(key)
	if !ok || !time.Now().Before(found.expires) || found.asked.Before(since) {
		return answer{}, false
	}
	if at, ok := a.changed.Peek(found.grant.id.Cluster); ok && !found.asked.After(at) {
		return answer{}, false
	}
	return found, true
}

// forget drops what kcp has said of a workspace.
func (a *authorizer) forget(cluster string, now time.Time) { a.changed.Add(cluster, now) }

// standing refuses what kcp, or the cache, grants and what has ended all the same: a grant in a
// workspace whose binding is going (its objects are still there then, and kcp still lets the
// tenant at them), and one by a preview link that was revoked. Every answer goes through it.
func (a *authorizer) standing(q question, g grant, refused *refusal) (grant, *refusal) {
	if refused == nil && a.bound.Ended(g.id.Cluster) {
		return grant{}, forbidden()
	}
	return q.unlessRevoked(g, refused)
}

// refresh asks kcp, once for all who wait for the same key. The flight has a context of its
// own: the caller who started it may go away, and the others still get their answer.
// flight sets those apart who must not be given an answer to an earlier question.
func (a *authorizer) refresh(ctx context.Context, q question, key cacheKey, flight string) (grant, *refusal) {
	result := a.flights.DoChan(string(key[:])+flight, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reviewTimeout)
		defer cancel()
		leave, refused := a.askers.enter(q)
		if refused != nil {
			return answer{refused: refused}, nil
		}
		var found answer
		defer func() { leave(found.refused) }()
		if err := a.slots.Acquire(ctx, 1); err != nil {
			found = answer{refused: unavailable(causeKcp, "too many callers are being authorized at once: try again", time.Second, err)}
			return found, nil
		}
		defer a.slots.Release(1)
		started := time.Now()
		found = a.ask(ctx, q)
		found.asked = started
		a.metrics.authorized(found.refused, time.Since(started))
		a.keep(key, found)
		return found, nil
	})
	select {
	case <-ctx.Done():
		return grant{}, clientGone(context.Cause(ctx))
	case r := <-result:
		found, _ := r.Val.(answer)
		return a.standing(q, found.grant, found.refused)
	}
}

func (a *authorizer) keep(key cacheKey, found answer) {
	switch {
	case found.refused == nil:
		found.expires = time.Now().Add(allowTTL)
	case found.refused.code >= http.StatusInternalServerError:
		return // an error is no answer; the next request asks anew
	default:
		found.expires = time.Now().Add(denyTTL)
	}
	a.answers.Add(key, found)
}

// ask puts both questions to kcp at once.
func (a *authorizer) ask(ctx context.Context, q question) answer {
	if q.workspaceOnly {
		return answer{refused: judgeReview(a.review(ctx, q))}
	}
	type read struct {
		obj    *metav1.PartialObjectMetadata
		answer tenant.Answer
	}
	reads := make(chan read, 1)
	go func() {
		ctx, span := childSpan(ctx, "kcp get", trace.SpanKindClient)
		obj, got := a.tenant.GetMetadata(ctx, q.caller, q.ref)
		span.End()
		reads <- read{obj, got}
	}()
	review := a.review(ctx, q)
	got := <-reads
	a.metrics.called(callGet, got.answer.Outcome)
	if a.mode == AuthorizeSubresource && review.Outcome == tenant.Allowed && got.answer.Outcome == tenant.Denied && isLabel(q.ref.Workspace) {
		return answer{grant: grant{id: placement.ID{Cluster: q.ref.Workspace}}}
	}
	if refused := judge(review, got.answer, q.declared); refused != nil {
		return answer{refused: refused}
	}
	cluster := logicalcluster.From(got.obj)
	if cluster.Empty() {
		return answer{refused: unavailable(causeKcp, "the workspace's API answered without a logical cluster: ask the operator", 0, nil)}
	}
	return answer{grant: grant{
		id:                placement.ID{Cluster: cluster.String(), UID: got.obj.GetUID()},
		deleting:          got.obj.GetDeletionTimestamp() != nil,
		previewsNotBefore: previewsNotBefore(got.obj.GetAnnotations()),
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

func (a *authorizer) review(ctx context.Context, q question) tenant.Answer {
	var spec authorizationv1.SelfSubjectAccessReviewSpec
	if q.workspaceOnly {
		spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Path: "/", Verb: "access"}
	} else {
		spec.ResourceAttributes = &authorizationv1.ResourceAttributes{
			Group: q.ref.Group, Version: q.ref.Version, Resource: q.ref.Resource, Subresource: q.subresource,
			Namespace: q.ref.Namespace, Name: q.ref.Name, Verb: q.verb,
		}
		if a.mode == AuthorizeInstanceGet {
			// Asked all the same: it tells a workspace that does not exist from an instance
			// that does not.
			spec.ResourceAttributes.Subresource, spec.ResourceAttributes.Verb = "", "get"
		}
	}
	ctx, span := childSpan(ctx, "kcp review", trace.SpanKindClient)
	defer span.End()
	got := a.tenant.Review(ctx, q.caller, q.ref.Workspace, spec)
	a.metrics.called(callReview, got.Outcome)
	return got
}

// judge turns kcp's two answers into a refusal, or nil to go on.
//
//	review        read              answer
//	unauthorized  any               401 (so does an unauthorized read)
//	claim missing any               403 that says how to accept it (so does the read)
//	unavailable   any               503, never a permission
//	allowed       allowed           go on
//	allowed       not found         404
//	allowed       denied            403
//	denied        allowed, missing  404 if the kind has no such verb, else 403
//	denied        denied            403
func judge(review, read tenant.Answer, declared bool) *refusal {
	switch {
	case review.Outcome == tenant.Unauthorized || read.Outcome == tenant.Unauthorized:
		return unauthorized(causeBadIdentity)
	case review.Outcome == tenant.ClaimNotAccepted || read.Outcome == tenant.ClaimNotAccepted:
		return claimNotAccepted()
	case review.Outcome == tenant.Unavailable:
		return kcpUnavailable(review)
	case review.Outcome == tenant.Allowed:
		switch read.Outcome {
		case tenant.Allowed:
			return nil
		case tenant.NotFound:
			return notFound(causeNoInstance)
		case tenant.Denied:
			return forbidden()
		default:
			return kcpUnavailable(read)
		}
	case declared || read.Outcome == tenant.Denied:
		return forbidden()
	case read.Outcome == tenant.Allowed || read.Outcome == tenant.NotFound:
		return notFound(causeNoVerb)
	}
	return kcpUnavailable(read)
}

func judgeReview(review tenant.Answer) *refusal {
	return judge(review, tenant.Answer{Outcome: tenant.Allowed}, true)
}

func kcpUnavailable(a tenant.Answer) *refusal {
	return unavailable(causeKcp, "the workspace's API did not answer whether you may: try again", a.RetryAfter, a.Err)
}

// clientGone is for a caller that left; nobody reads it but the access log.
func clientGone(err error) *refusal {
	return &refusal{code: statusClientClosedRequest, cause: causeClientGone, err: err, message: "the request was cancelled"}
}
