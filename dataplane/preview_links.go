// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sandbar-dev/sandbar/dataplane/access"
	"github.com/sandbar-dev/sandbar/dataplane/locate"
	"github.com/sandbar-dev/sandbar/dataplane/preview"
	"github.com/sandbar-dev/sandbar/dataplane/refusal"
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
func (h *handler) servePreviewLinks(x *exchange, g access.Grant) *refusal.Error {
	if !x.kind.Declares(x.route) || x.route.Tail != "" {
		return refusal.NotFound(refusal.CauseNoVerb)
	}
	at, refused := h.locate(x, g)
	if refused != nil {
		return refused
	}
	x.owner = at.Asked
	leave, refused := h.limits.Admit(at.Owner.Cluster, string(at.Owner.UID), false)
	if refused != nil {
		return refused
	}
	defer leave()
	switch x.request.Method {
	case http.MethodPost:
		return h.givePreviewLink(x, at)
	case http.MethodDelete:
		return h.revokePreviews(x, g)
	}
	return refusal.MethodNotAllowed([]string{http.MethodDelete, http.MethodPost})
}

// givePreviewLink seals who the caller is, as kcp knows them, into a link. The caller's token is
// no part of it: from here on kcp is asked what that subject may do.
func (h *handler) givePreviewLink(x *exchange, at *locate.Place) *refusal.Error {
	if e, _ := contract.Preview(x.kind.DataPlane(), x.route.Component); contract.AnyPort(&e) && e.Port == "" && x.route.Port == "" {
		return refusal.Malformed("name the port that is meant by its number: …/ports/<number>/" + contract.ProxyURLVerb + ", or with sandbar open, --port")
	}
	host, refused := h.previews.host(at.ID, x.route)
	if refused != nil {
		return refused
	}
	wanted, err := preview.ReadRequest(x.request.Body)
	switch {
	case errors.Is(err, preview.ErrRequest):
		return refusal.Malformed(err.Error())
	case x.Stalled.Load():
		return refusal.Stalled(x.Stall)
	case err != nil:
		return access.ClientGone(err)
	}
	user, got := h.tenant.WhoAmI(x.request.Context(), x.question.Caller, x.route.Workspace)
	if refused := access.Judge(tenant.Answer{Outcome: tenant.Allowed}, got, true); refused != nil {
		return refused
	}
	now := h.previews.now()
	session, refused := h.sessionLength(x, wanted, now)
	if refused != nil {
		return refused
	}
	claims := &preview.Claims{
		Subject: user, Cluster: at.Owner.Cluster, Group: x.route.Group, Version: x.route.Version, Resource: x.route.Resource,
		Namespace: x.route.Namespace, Name: x.route.Name, UID: at.Asked.UID, Component: x.route.Component, Port: x.route.Port, Path: wanted.Path, Renew: wanted.RenewURL,
		IssuedAt: now.UnixNano(), Expires: now.Add(min(preview.LinkLifetime, session)).Unix(), SessionExpires: now.Add(session).Unix(),
	}
	claims.SetPlacement(at.ID.Namespace())
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
	if !preview.Fits(cookie) || len(link) > preview.MaxSealedBytes {
		return tooMuchIdentity()
	}
	refusal.WriteJSON(x, x.request, http.StatusCreated, preview.Response{
		URL:                        preview.EnterURL(host, link),
		ExpirationTimestamp:        time.Unix(claims.Expires, 0).UTC(),
		SessionExpirationTimestamp: time.Unix(claims.SessionExpires, 0).UTC(),
	})
	return nil
}

// sessionLength is how long a session may last. It is the only proof of who the caller is that is
// left once the token is gone, and kcp cannot be asked about a user by name whether there is still
// one, or in which groups: so it ends with the token at the latest, and long before that it wants
// another link, for which a token is looked at again.
func (h *handler) sessionLength(x *exchange, wanted preview.Request, now time.Time) (time.Duration, *refusal.Error) {
	length := min(time.Duration(wanted.ExpirationSeconds)*time.Second, h.settings.now().previewSession)
	// Nobody has verified the token's end here. But kcp has just taken the token, which its issuer
	// has signed with that end; of a token that is none of these, kcp alone knows an end.
	if end := x.question.Caller.TokenEnd(); !end.IsZero() {
		length = min(length, end.Sub(now))
	}
	if length < preview.LeastLeft {
		refused := refusal.Unauthorized(refusal.CauseBadIdentity)
		refused.Message = fmt.Sprintf("the bearer token ends within %s, and a preview ends with it: ask with a new one", preview.LeastLeft)
		return 0, refused
	}
	return length, nil
}

// mayPreview asks whether the subject of a link may see the preview, in the way in which it will be
// asked for each request of the browser. What is missing is so told to the program that wants the
// link, which can do something about it, and not to the browser.
func (h *handler) mayPreview(x *exchange, claims *preview.Claims) *refusal.Error {
	as := x.route
	as.Workspace, as.Verb = claims.Cluster, contract.ProxyVerb
	g, refused := h.authorizer.Authorize(x.request.Context(), access.Question{
		Caller: tenant.Subject(claims.Subject), Subresource: as.Verb, Verb: "get", Declared: true, Ref: as.Ref(),
		From: x.question.From, LinkIssued: claims.Issued(),
	})
	switch {
	case refused == nil && g.Owner != claims.Owner():
		return refusal.NotFound(refusal.CauseNotPlaced)
	case refused != nil && refused.Cause == refusal.CauseDenied:
		refused = refusal.Forbidden()
		refused.Message = "access denied: to have a link to the preview you need the right to open it: get on " +
			x.route.Resource + " and on " + x.route.Resource + "/" + contract.ProxyVerb
	}
	return refused
}

// revokePreviews writes on the tenant's object, as the caller, that no link and no session from
// before now is valid. All replicas read it there; none has to remember anything.
func (h *handler) revokePreviews(x *exchange, g access.Grant) *refusal.Error {
	at := h.previews.now().UTC()
	// A time in the future is somebody's wish to have no previews; it must not end early.
	if g.PreviewsNotBefore.After(at) {
		at = g.PreviewsNotBefore
	} else {
		got := h.tenant.Annotate(x.request.Context(), x.question.Caller, x.question.Ref, placement.AnnotationPreviewsNotBefore, at.Format(time.RFC3339Nano))
		h.metrics.Access.Called(access.CallPatch, got.Outcome)
		if got.Outcome == tenant.Denied {
			refused := refusal.Forbidden()
			refused.Message = "access denied: previews are revoked by an annotation on the instance, so you need the right to patch " + x.route.Resource
			return refused
		}
		if refused := access.Judge(tenant.Answer{Outcome: tenant.Allowed}, got, true); refused != nil {
			return refused
		}
	}
	refusal.WriteJSON(x, x.request, http.StatusOK, revocation{at})
	return nil
}

// host is the host name of an instance's preview, if there are previews.
func (p *previews) host(id placement.Located, r locate.Route) (string, *refusal.Error) {
	domain := p.domain.Load()
	if domain.IsZero() {
		return "", &refusal.Error{
			Code: http.StatusConflict, Reason: metav1.StatusReasonConflict, Cause: refusal.CauseNoPreviews,
			Message: "there are no preview links here: the operator has not set spec.dataPlane.previewDomain of the InfrastructureProvider; the verb proxy works without",
		}
	}
	host, err := domain.Host(id.Namespace(), r.Component, r.Port)
	if err != nil {
		return "", refusal.Malformed("this cannot have a preview link: " + err.Error())
	}
	return host, nil
}

func tooMuchIdentity() *refusal.Error {
	return &refusal.Error{
		Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid, Cause: refusal.CausePreviewIdentity,
		Message: fmt.Sprintf("your identity is too large for a preview's cookie, which holds at most %d bytes: use an account with fewer groups, or a service account of the workspace", preview.MaxCookieBytes),
	}
}

// Refusals on preview hosts. They are the same whatever exists: who has no session learns nothing.

func noPreview() *refusal.Error {
	return &refusal.Error{Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound, Cause: refusal.CauseNoPreview, Message: "there is no such page here: open the preview again from where you got its link"}
}

func noSession() *refusal.Error {
	return &refusal.Error{
		Code: http.StatusUnauthorized, Reason: metav1.StatusReasonUnauthorized, Cause: refusal.CauseNoIdentity, Challenge: refusal.PreviewChallenge,
		Message: "this preview is not open in this browser: open it from where you got its link; a browser that blocks all cookies cannot show it",
	}
}

func badLink(err error) *refusal.Error {
	return &refusal.Error{
		Code: http.StatusUnauthorized, Reason: metav1.StatusReasonUnauthorized, Cause: refusal.CauseBadIdentity, Challenge: refusal.PreviewChallenge, Err: err,
		Message: "this preview link or session is not valid: open the preview again from where you got its link",
	}
}

// previewExpired is for a link or a session that is over; renew is where a browser gets another one.
func previewExpired(renew string) *refusal.Error {
	return &refusal.Error{
		Code: http.StatusUnauthorized, Reason: metav1.StatusReasonUnauthorized, Cause: refusal.CausePreviewExpired, Challenge: refusal.PreviewChallenge,
		Message: "this preview link or session has expired: open the preview again from where you got its link", Renew: renew,
	}
}

func foreignOrigin() *refusal.Error {
	return &refusal.Error{
		Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Cause: refusal.CausePreviewOrigin,
		Message: "another page made your browser send this request: a preview takes requests from its own pages only",
	}
}

// pageTitles are those of pages whose code alone would say too little.
var pageTitles = map[string]string{
	refusal.CauseWaking:      "This preview is waking up",
	refusal.CauseWakeTimeout: "This preview did not wake up",
	refusal.CauseSuspended:   "This preview is suspended",
	refusal.CauseExpired:     "This preview has ended",
}

// pageMessages are what pages say to a person who looks at an app, and perhaps has no way to look at the
// instance. They tell nothing of it.
var pageMessages = map[string]string{
	refusal.CauseNotReady: "the app is starting, or does not stay up: its log, and the instance's condition Ready, say which. This page loads itself again",
}

// writePreviewRefusal answers a refusal on a preview's host: with a page to a person.
func writePreviewRefusal(w http.ResponseWriter, r *http.Request, e *refusal.Error) {
	if !preview.WantsPage(r.Header) {
		refusal.Write(w, r, e)
		return
	}
	header := w.Header()
	clear(header)
	if e.Renew != "" && r.Method == http.MethodGet {
		// Who gives out links knows the user by other means than a session of ours, and so looks
		// again who that is.
		header.Set("Location", e.Renew)
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("Cache-Control", "no-store")
		w.WriteHeader(http.StatusSeeOther)
		return
	}
	// A form that was sent is the person's to send again.
	if seconds := cmp.Or(e.Reload, e.Refresh()); seconds > 0 && r.Method == http.MethodGet {
		header.Set("Refresh", strconv.Itoa(seconds))
	}
	e.EndConnection(header)
	switch e.Code {
	case http.StatusServiceUnavailable:
		header.Set("Retry-After", strconv.Itoa(e.RetryAfterSeconds()))
	case http.StatusUnauthorized:
		header.Set("WWW-Authenticate", refusal.PreviewChallenge)
	case http.StatusMethodNotAllowed:
		header.Set("Allow", strings.Join(e.Allow, ", "))
	}
	preview.Page{Code: e.Code, Title: pageTitles[e.Cause], Message: cmp.Or(pageMessages[e.Cause], e.Message)}.Write(w, r)
}
