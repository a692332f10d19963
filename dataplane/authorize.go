// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"net/http"
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

// question is what the authorizer asks. All of it but from and linkIssued is part of the cache's
// key.
type question struct {
	caller tenant.Caller
	ref    tenant.Ref
	// subresource is the verb of the path; verb is the Kubernetes verb of the method.
	subresource string
	verb        string
	// declared tells whether the kind's Template has that verb.
	declared bool
	// workspaceOnly asks for access to the workspace instead of the object.
	workspaceOnly bool
	// from is the address that the request comes from. It is for askers, and alone no part of
	// the key: the answer does not depend on it.
	from string
	// linkIssued is when the preview link was issued that the caller is known by; zero if by
	// none. It is looked at behind the cache (unlessRevoked), so that links share answers.
	linkIssued time.Time
}

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
	expires time.Time
}

type cacheKey [sha256.Size]byte

// authorizer asks kcp, as the caller, whether a request may go on.
type authorizer struct {
	tenant  *tenant.Client
	mode    AuthorizationMode
	metrics *metrics
	// askers bound what one caller asks.
	askers *askers
	// answers is bounded by its size; entries say themselves when they end. (An LRU with one
	// lifetime for all would need two caches, and its clean-up a goroutine that never stops.)
	answers *lru.Cache[cacheKey, answer]
	flights singleflight.Group
	// slots bounds how many rounds of questions are under way, so that a flood of unknown
	// tokens does not become a flood on kcp.
	slots *semaphore.Weighted
}

func newAuthorizer(c *tenant.Client, opts Options, who *askers, m *metrics) (*authorizer, error) {
	answers, err := lru.New[cacheKey, answer](opts.AuthorizationCacheSize)
	if err != nil {
		return nil, fmt.Errorf("making the authorization cache: %w", err)
	}
	return &authorizer{
		tenant: c, mode: opts.AuthorizationMode, metrics: m, askers: who, answers: answers,
		slots: semaphore.NewWeighted(int64(opts.AuthorizationConcurrency)),
	}, nil
}

// authorize answers a question, from the cache if it can.
func (a *authorizer) authorize(ctx context.Context, q question) (grant, *refusal) {
	key := q.key()
	if found, ok := a.answers.Get(key); ok && time.Now().Before(found.expires) {
		a.metrics.cacheHit.Inc()
		g := found.grant
		g.cached = true
		return q.unlessRevoked(g, found.refused)
	}
	a.metrics.cacheMiss.Inc()
	return a.refresh(ctx, q, key)
}

// again answers a question without the cache, for a caller that found the cached answer to
// disagree with the runtime cluster.
func (a *authorizer) again(ctx context.Context, q question) (grant, *refusal) {
	return a.refresh(ctx, q, q.key())
}

// refresh asks kcp, once for all who wait for the same key. The flight has a context of its
// own: the caller who started it may go away, and the others still get their answer.
func (a *authorizer) refresh(ctx context.Context, q question, key cacheKey) (grant, *refusal) {
	result := a.flights.DoChan(string(key[:]), func() (any, error) {
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
		a.metrics.authorized(found.refused, time.Since(started))
		a.keep(key, found)
		return found, nil
	})
	select {
	case <-ctx.Done():
		return grant{}, clientGone(context.Cause(ctx))
	case r := <-result:
		found, _ := r.Val.(answer)
		return q.unlessRevoked(found.grant, found.refused)
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

// key is SHA-256 over everything that the answer depends on, each part with its length in
// front. Without the lengths, a workspace "a" with resource "bc" would share an answer with
// "ab" and "c"; without the credential, callers would share answers (Traefik, CVE-2026-71326).
func (q question) key() cacheKey {
	h := sha256.New()
	for _, part := range []string{
		q.caller.CredentialKey(), q.ref.Workspace, q.ref.Group, q.ref.Version, q.ref.Resource,
		q.ref.Namespace, q.ref.Name, q.subresource, q.verb,
	} {
		writePart(h, part)
	}
	var flags [2]byte
	if q.declared {
		flags[0] = 1
	}
	if q.workspaceOnly {
		flags[1] = 1
	}
	h.Write(flags[:])
	var key cacheKey
	h.Sum(key[:0])
	return key
}

func writePart(h hash.Hash, part string) {
	var length [8]byte
	binary.BigEndian.PutUint64(length[:], uint64(len(part)))
	h.Write(length[:])
	h.Write([]byte(part))
}

// kubernetesVerb is the verb of the review for a method. Upgrades are GETs. OPTIONS asks for
// get: it tells about a resource and changes nothing.
func kubernetesVerb(method string) (string, bool) {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return "get", true
	case http.MethodPost:
		return "create", true
	case http.MethodPut:
		return "update", true
	case http.MethodPatch:
		return "patch", true
	case http.MethodDelete:
		return "delete", true
	}
	return "", false
}
