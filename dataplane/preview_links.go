// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sandbar-dev/sandbar/dataplane/preview"
	"github.com/sandbar-dev/sandbar/pkg/contract"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/tenant"
)

// revocation is what the revocation of previews answers.
type revocation struct {
	// RevokedBefore is the time before which no link or session is valid.
	RevokedBefore time.Time `json:"revokedBefore"`
}

// servePreviewLinks gives out a link to the instance's preview (POST), or revokes all that were
// given out (DELETE). The caller has the right to do so.
func (h *handler) servePreviewLinks(x *exchange, g grant) *refusal {
	if !x.kind.declares(x.route) || x.route.tail != "" {
		return notFound(causeNoVerb)
	}
	id, refused := h.locate(x, g)
	if refused != nil {
		return refused
	}
	x.id = id
	leave, refused := h.limits.admit(id.Cluster, string(id.UID), false)
	if refused != nil {
		return refused
	}
	defer leave()
	switch x.request.Method {
	case http.MethodPost:
		return h.givePreviewLink(x, id)
	case http.MethodDelete:
		return h.revokePreviews(x, g)
	}
	return methodNotAllowed([]string{http.MethodDelete, http.MethodPost})
}

// givePreviewLink seals who the caller is, as kcp knows them, into a link. The caller's token is
// no part of it: from here on kcp is asked what that subject may do.
func (h *handler) givePreviewLink(x *exchange, id placement.ID) *refusal {
	if e, _ := contract.Preview(x.kind.dataPlane(), x.route.component); contract.AnyPort(&e) && e.Port == "" && x.route.port == "" {
		return malformed("name the port that is meant by its number: …/ports/<number>/" + contract.ProxyURLVerb + ", or with sandbar open, --port")
	}
	host, refused := h.previews.host(id, x.route)
	if refused != nil {
		return refused
	}
	wanted, err := preview.ReadRequest(x.request.Body)
	switch {
	case errors.Is(err, preview.ErrRequest):
		return malformed(err.Error())
	case x.stalled.Load():
		return stalled(x.stall)
	case err != nil:
		return clientGone(err)
	}
	user, got := h.tenant.WhoAmI(x.request.Context(), x.question.caller, x.route.workspace)
	if refused := judge(tenant.Answer{Outcome: tenant.Allowed}, got, true); refused != nil {
		return refused
	}
	now := h.previews.now()
	session := time.Duration(wanted.ExpirationSeconds) * time.Second
	claims := &preview.Claims{
		Subject: user, Cluster: id.Cluster, Group: x.route.group, Version: x.route.version, Resource: x.route.resource,
		Namespace: x.route.namespace, Name: x.route.name, UID: id.UID, Component: x.route.component, Port: x.route.port, Path: wanted.Path,
		IssuedAt: now.UnixNano(), Expires: now.Add(preview.LinkLifetime).Unix(), SessionExpires: now.Add(session).Unix(),
	}
	if refused := h.mayPreview(x, claims); refused != nil {
		return refused
	}
	link, refused := h.previews.seal(preview.Link, host, claims)
	if refused != nil {
		return refused
	}
	cookie, refused := h.previews.seal(preview.Session, host, claims.Session())
	if refused != nil {
		return refused
	}
	if !preview.Fits(cookie) {
		return tooMuchIdentity()
	}
	writeJSON(x, x.request, http.StatusCreated, preview.Response{
		URL:                        preview.EnterURL(host, link),
		ExpirationTimestamp:        time.Unix(claims.Expires, 0).UTC(),
		SessionExpirationTimestamp: time.Unix(claims.SessionExpires, 0).UTC(),
	})
	return nil
}

// mayPreview asks whether the subject of a link may see the preview, in the way in which it will be
// asked for each request of the browser. What is missing is so told to the program that wants the
// link, which can do something about it, and not to the browser.
func (h *handler) mayPreview(x *exchange, claims *preview.Claims) *refusal {
	as := x.route
	as.workspace, as.verb = claims.Cluster, contract.ProxyVerb
	g, refused := h.authorizer.authorize(x.request.Context(), question{
		caller: tenant.Subject(claims.Subject), subresource: as.verb, verb: "get", declared: true, ref: as.ref(),
		from: x.question.from, linkIssued: claims.Issued(),
	})
	switch {
	case refused == nil && g.id != claims.ID():
		return notFound(causeNotPlaced)
	case refused != nil && refused.cause == causeDenied:
		refused = forbidden()
		refused.message = "access denied: to have a link to the preview you need the right to open it: get on " +
			x.route.resource + " and on " + x.route.resource + "/" + contract.ProxyVerb
	}
	return refused
}

// revokePreviews writes on the tenant's object, as the caller, that no link and no session from
// before now is valid. All replicas read it there; none has to remember anything.
func (h *handler) revokePreviews(x *exchange, g grant) *refusal {
	at := h.previews.now().UTC()
	// A time in the future is somebody's wish to have no previews; it must not end early.
	if g.previewsNotBefore.After(at) {
		at = g.previewsNotBefore
	} else {
		got := h.tenant.Annotate(x.request.Context(), x.question.caller, x.question.ref, placement.AnnotationPreviewsNotBefore, at.Format(time.RFC3339Nano))
		h.metrics.called(callPatch, got.Outcome)
		if got.Outcome == tenant.Denied {
			refused := forbidden()
			refused.message = "access denied: previews are revoked by an annotation on the instance, so you need the right to patch " + x.route.resource
			return refused
		}
		if refused := judge(tenant.Answer{Outcome: tenant.Allowed}, got, true); refused != nil {
			return refused
		}
	}
	writeJSON(x, x.request, http.StatusOK, revocation{at})
	return nil
}

// host is the host name of an instance's preview, if there are previews.
func (p *previews) host(id placement.ID, r route) (string, *refusal) {
	domain := p.domain.Load()
	if domain.IsZero() {
		return "", &refusal{
			code: http.StatusConflict, reason: metav1.StatusReasonConflict, cause: causeNoPreviews,
			message: "there are no preview links here: the operator has not set spec.dataPlane.previewDomain of the InfrastructureProvider; the verb proxy works without",
		}
	}
	host, err := domain.Host(id.Namespace(), r.component, r.port)
	if err != nil {
		return "", malformed("this cannot have a preview link: " + err.Error())
	}
	return host, nil
}

func tooMuchIdentity() *refusal {
	return &refusal{
		code: http.StatusUnprocessableEntity, reason: metav1.StatusReasonInvalid, cause: causePreviewIdentity,
		message: fmt.Sprintf("your identity is too large for a preview's cookie, which holds at most %d bytes: use an account with fewer groups, or a service account of the workspace", preview.MaxCookieBytes),
	}
}

// Refusals on preview hosts. They are the same whatever exists: who has no session learns nothing.

func noPreview() *refusal {
	return &refusal{code: http.StatusNotFound, reason: metav1.StatusReasonNotFound, cause: causeNoPreview, message: "there is no such page here: open the preview again from where you got its link"}
}

func noSession() *refusal {
	return &refusal{
		code: http.StatusUnauthorized, reason: metav1.StatusReasonUnauthorized, cause: causeNoIdentity, challenge: previewChallenge,
		message: "this preview is not open in this browser: open it from where you got its link; a browser that blocks all cookies cannot show it",
	}
}

func badLink(err error) *refusal {
	return &refusal{
		code: http.StatusUnauthorized, reason: metav1.StatusReasonUnauthorized, cause: causeBadIdentity, challenge: previewChallenge, err: err,
		message: "this preview link or session is not valid: open the preview again from where you got its link",
	}
}

func previewExpired() *refusal {
	return &refusal{
		code: http.StatusUnauthorized, reason: metav1.StatusReasonUnauthorized, cause: causePreviewExpired, challenge: previewChallenge,
		message: "this preview link or session has expired: open the preview again from where you got its link",
	}
}

func previewRevoked() *refusal {
	return &refusal{
		code: http.StatusUnauthorized, reason: metav1.StatusReasonUnauthorized, cause: causePreviewRevoked, challenge: previewChallenge,
		message: "the previews of this instance that were open have been ended: open the preview again from where you got its link",
	}
}

func foreignOrigin() *refusal {
	return &refusal{
		code: http.StatusForbidden, reason: metav1.StatusReasonForbidden, cause: causePreviewOrigin,
		message: "another page made your browser send this request: a preview takes requests from its own pages only",
	}
}

// previewChallenge is the scheme of WWW-Authenticate on preview hosts, where tokens are not taken.
const previewChallenge = "Sandbar-Preview"

// refreshSeconds is how soon a page that tells of something passing is loaded again.
const refreshSeconds = 3

// refresh is after how many seconds the page of a refusal is loaded again; 0 for never, when only
// somebody's doing helps. A browser does this without a script, which the page's policy forbids.
func (e *refusal) refresh() int {
	switch {
	case e.cause == causeWaking:
		return e.retryAfterSeconds()
	case e.code == http.StatusServiceUnavailable, e.code == http.StatusConflict && e.retryAfter > 0:
		return max(refreshSeconds, e.retryAfterSeconds())
	case e.code == http.StatusBadGateway, e.code == http.StatusGatewayTimeout:
		return refreshSeconds
	}
	return 0
}

// pageTitles are those of pages whose code alone would say too little.
var pageTitles = map[string]string{
	causeWaking:      "This preview is waking up",
	causeWakeTimeout: "This preview did not wake up",
	causeSuspended:   "This preview is suspended",
	causeExpired:     "This preview has ended",
}

// writePreviewRefusal answers a refusal on a preview's host: with a page to a person.
func writePreviewRefusal(w http.ResponseWriter, r *http.Request, e *refusal) {
	if !preview.WantsPage(r.Header) {
		writeRefusal(w, r, e)
		return
	}
	header := w.Header()
	clear(header)
	if seconds := e.refresh(); seconds > 0 {
		header.Set("Refresh", strconv.Itoa(seconds))
	}
	switch e.code {
	case http.StatusServiceUnavailable:
		header.Set("Retry-After", strconv.Itoa(e.retryAfterSeconds()))
	case http.StatusUnauthorized:
		header.Set("WWW-Authenticate", previewChallenge)
	case http.StatusMethodNotAllowed:
		header.Set("Allow", strings.Join(e.allow, ", "))
	}
	preview.Page{Code: e.code, Title: pageTitles[e.cause], Message: e.message}.Write(w, r)
}
