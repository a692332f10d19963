// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/sandbar-dev/sandbar/dataplane/access"
	"github.com/sandbar-dev/sandbar/dataplane/claim"
	"github.com/sandbar-dev/sandbar/dataplane/locate"
	"github.com/sandbar-dev/sandbar/dataplane/record"
	"github.com/sandbar-dev/sandbar/dataplane/refusal"
	"github.com/sandbar-dev/sandbar/dataplane/spans"
	"github.com/sandbar-dev/sandbar/pkg/contract"
	"github.com/sandbar-dev/sandbar/tenant"
)

// sandboxes is the resource of what the verb claim makes.
const sandboxes = "sandboxes"

// serveClaim creates a Sandbox of a SandboxTemplate as the caller, and waits until it is Ready. kcp is asked for create
// on sandboxtemplates/claim, with every method, so that a caller with the right is told which one the verb takes. kcp says
// when the Sandbox is created that the caller may create Sandboxes as well.
func (h *handler) serveClaim(x *exchange, caller tenant.Caller) *refusal.Error {
	x.question = access.Question{
		Caller: caller, Subresource: contract.ClaimVerb, Verb: "create", Declared: true, Ref: x.route.Ref(), From: x.request.RemoteAddr,
	}
	template, refused := h.authorize(x)
	switch {
	case refused != nil && refused.Cause == refusal.CauseNoInstance, refused == nil && template.Deleting:
		return noTemplate(x.route)
	case refused != nil:
		return refused
	case template.Owner.UID == "":
		return refusal.Forbidden() // it may claim and not read the template, and would claim what is not there
	case x.request.Method != http.MethodPost:
		return refusal.MethodNotAllowed([]string{http.MethodPost})
	}
	release, refused := h.limits.Admit(template.Owner.Cluster, string(template.Owner.UID), false)
	if refused != nil {
		return refused
	}
	x.AtEnd(release)
	now := x.outcome(0)
	x.AtEnd(h.metrics.Enter(&now))
	asked, refused := h.newClaim(x)
	if refused != nil {
		return refused
	}
	asked.Room = func() *refusal.Error { return h.room(template.Owner.Cluster, x.route.Namespace) }
	if refused := h.admitClaim(x, template.Owner.Cluster); refused != nil {
		return refused
	}
	return h.answerClaim(x, asked)
}

// noTemplate is a 404 for a caller that may use the verb, and so may know.
func noTemplate(r locate.Route) *refusal.Error {
	e := refusal.NotFound(refusal.CauseNoInstance)
	e.Message = fmt.Sprintf("there is no SandboxTemplate %s in namespace %s, or it is being deleted: kubectl get sandboxtemplates lists them; of an operator's Template a Sandbox is created, or make a SandboxTemplate that names it", r.Name, r.Namespace)
	return e
}

// newClaim reads what the caller asks for.
func (h *handler) newClaim(x *exchange) (*claim.Claim, *refusal.Error) {
	body, refused := x.body(claim.MaxBody)
	if refused != nil {
		return nil, refused
	}
	request, refused := claim.Parse(body, x.request.Header)
	if refused != nil {
		return nil, refused
	}
	ref := x.question.Ref
	ref.Resource, ref.Name = sandboxes, ""
	kind := h.kinds.Find(locate.Route{Group: ref.Group, Version: ref.Version, Resource: ref.Resource})
	if kind == nil || kind.Template.Spec.PodTemplate == nil {
		return nil, refusal.Unavailable(refusal.CauseStarting, "the provider offers no Sandboxes now: ask the operator for the Template sandbox", 10*time.Second, nil)
	}
	return &claim.Claim{
		Workspace: h.tenant, Called: h.metrics.Access.Called, Caller: x.question.Caller, Request: request, Sandboxes: ref, Template: x.route.Name,
		Kind: claim.Kind{
			APIVersion: kind.Resource.GroupVersion().String(), Kind: kind.Template.Status.Kind, TemplateField: kind.Template.Spec.PodTemplate.From,
		},
	}, nil
}

// quotaRetry is after how long a workspace that has all of its instances may have room again.
const quotaRetry = 5 * time.Second

// admitClaim counts the claim against the rates of its caller and of its workspace. kcp has said already which user the
// caller is; if it does not say so any more, nothing is claimed.
func (h *handler) admitClaim(x *exchange, cluster string) *refusal.Error {
	who, refused := h.authorizer.Counted(x.request.Context(), x.question)
	if refused != nil {
		return refused
	}
	return h.limits.AdmitClaim(cluster, who)
}

// room refuses another Sandbox in a workspace that has all the instances that it may have, and none that is ready to be
// taken. The controllers are the ones that bound instances, when one is placed: a Sandbox that is made here above
// their bound waits for its place.
func (h *handler) room(cluster, namespace string) *refusal.Error {
	most := h.settings.now().instancesPerWorkspace
	if placed, ready := h.placer.Cache.Places(h.kinds.Provider(), cluster, namespace); placed >= most && ready == 0 {
		return refusal.TooMany(refusal.CauseQuota, fmt.Sprintf("the workspace has %d instances, those that its SandboxSets keep ready among them, and may have %d: delete some, or ask the operator for more (spec.limits.instancesPerWorkspace)", placed, most), quotaRetry)
	}
	return nil
}

// mayStillClaim refuses to tell a caller of its Sandbox whose right, or whose token, has ended during the wait, or whose
// workspace's binding has: kcp ends no watch for that, and a wait lasts up to five minutes. An answer of kcp that is ten
// seconds old counts, as for any request, so that a wait for a warm start asks nothing. Where kcp says nothing, or the
// template is gone meanwhile, the answer stands: without it the caller would not know what it has.
func (h *handler) mayStillClaim(x *exchange) *refusal.Error {
	_, refused := h.authorizer.Authorize(x.request.Context(), x.question)
	if refused != nil && (refused.Code == http.StatusForbidden || refused.Code == http.StatusUnauthorized) {
		return refused
	}
	return nil
}

// answerClaim makes the Sandbox, waits for it and answers: 201 for one that is made and Ready, 200 for one that is
// Ready and was made by an earlier request with the same key, 202 for one that is not Ready, with what to do.
func (h *handler) answerClaim(x *exchange, asked *claim.Claim) *refusal.Error {
	ctx, span := spans.Child(x.request.Context(), "claim", trace.SpanKindInternal)
	defer span.End()
	made, created, refused := asked.Make(ctx)
	if refused != nil {
		return refused
	}
	patient, cancel := context.WithTimeout(ctx, asked.Request.Patience)
	defer cancel()
	defer context.AfterFunc(h.draining, cancel)() // the Sandbox goes on starting, and another replica tells of it
	s, refused := asked.Await(patient, made)
	if refused != nil {
		return refused
	}
	if err := x.request.Context().Err(); err != nil {
		return access.ClientGone(err)
	}
	if refused := h.mayStillClaim(x); refused != nil {
		return refused
	}
	code, answer := http.StatusAccepted, record.ClaimNotReady
	switch {
	case !s.Ready():
	case created:
		code, answer = http.StatusCreated, record.ClaimReady
	default:
		code, answer = http.StatusOK, record.ClaimSame
	}
	h.metrics.Claimed(s.Start(), answer, time.Since(x.started), x.traceID)
	refusal.WriteJSON(x, x.request, code, s)
	return nil
}
