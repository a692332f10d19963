// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/sandbar-dev/sandbar/dataplane/access"
	"github.com/sandbar-dev/sandbar/dataplane/locate"
	"github.com/sandbar-dev/sandbar/dataplane/preview"
	"github.com/sandbar-dev/sandbar/dataplane/refusal"
	"github.com/sandbar-dev/sandbar/pkg/contract"
	"github.com/sandbar-dev/sandbar/tenant"
)

// A preview is the verb proxy on a host name of the instance's own, for a browser. The host takes
// the place of the path, and a session in a cookie that of the token; from there on the request
// goes through the same steps as any other, as the subject of the session. Nothing but the Host
// leads here: below the preview domain there is no other way in, and outside of it no way here.

// servePreview takes a request on a preview's host through its steps.
func (h *handler) servePreview(x *exchange, name preview.Name, valid bool) *refusal.Error {
	x.onPreview = true
	h.front.Strip(x.request.Header) // a session says who calls, and the app gets them from nobody
	if !valid {
		return noPreview()
	}
	if refused := wellFormed(x.request); refused != nil {
		return refused
	}
	if !h.ready() {
		return refusal.Unavailable(refusal.CauseStarting, "the data plane is starting: try again", 0, nil)
	}
	if preview.IsReserved(x.request.URL.Path) {
		return h.enterPreview(x, name)
	}
	claims, refused := h.previews.session(x.request, name)
	if refused != nil {
		return refused
	}
	if refused := h.previewOf(x, claims, name); refused != nil {
		return refused
	}
	if refused := x.route.SetTail(x.request); refused != nil {
		return refused
	}
	// Whatever lasts ends with the session.
	ctx, cancel := context.WithDeadlineCause(x.request.Context(), claims.Ends(h.settings.now().previewSession), previewExpired(""))
	x.AtEnd(cancel)
	x.request = x.request.WithContext(ctx)
	return h.serveVerb(x, tenant.Subject(claims.Subject))
}

// enterPreview turns a link into a session and leads on to the page without the link, so that it
// is in no history and no Referer.
func (h *handler) enterPreview(x *exchange, name preview.Name) *refusal.Error {
	claims, refused := h.previews.link(x.request, name)
	if refused != nil {
		return refused
	}
	if refused := h.previewOf(x, claims, name); refused != nil {
		return refused
	}
	if x.question, refused = ask(x, tenant.Subject(claims.Subject)); refused != nil {
		return refused
	}
	// Asked now, so that who may not hears it here, and a link that was revoked makes no session.
	if _, refused := h.authorize(x); refused != nil {
		return refused
	}
	session, refused := h.previews.seal(preview.Session, name.Host, claims.Session())
	if refused != nil {
		return refused
	}
	header := x.Header()
	kept := time.Until(time.Unix(claims.SessionExpires, 0))
	if claims.Renew != "" {
		kept += preview.RenewGrace
	}
	header.Add("Set-Cookie", preview.Cookie(session, kept).String())
	header.Set("Location", claims.Path)
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cache-Control", "no-store")
	x.WriteHeader(http.StatusSeeOther)
	return nil
}

// previewOf makes the request one for the verb proxy of the instance that the claims name.
func (h *handler) previewOf(x *exchange, claims *preview.Claims, name preview.Name) *refusal.Error {
	x.preview, x.authenticatedBy = claims, "preview"
	x.route = locate.Route{
		Workspace: claims.Cluster, Namespace: claims.Namespace, Group: claims.Group, Version: claims.Version,
		Resource: claims.Resource, Name: claims.Name, Component: claims.Component, Port: claims.Port, Verb: contract.ProxyVerb,
		PreviewHost: name.Host,
	}
	if x.kind = h.kinds.Find(x.route); !x.kind.Previews(x.route) {
		return noPreview() // its Template has changed
	}
	return nil
}

// session opens the session that a browser sent, if the request may use it.
func (p *previews) session(r *http.Request, name preview.Name) (*preview.Claims, *refusal.Error) {
	sessions := preview.Sessions(r.Header)
	if len(sessions) == 0 {
		return nil, noSession()
	}
	if !preview.OriginAllowed(r.Method, r.Header, access.IsUpgrade(r.Header), "https://"+name.Host) {
		return nil, foreignOrigin()
	}
	var refused *refusal.Error
	for _, sealed := range sessions {
		var claims *preview.Claims
		if claims, refused = p.open(preview.Session, name, sealed, r.URL.RequestURI()); refused == nil {
			return claims, nil
		}
	}
	return nil, refused
}

// link opens the link of a first visit.
func (p *previews) link(r *http.Request, name preview.Name) (*preview.Claims, *refusal.Error) {
	if r.URL.Path != preview.EnterPath {
		return nil, noPreview()
	}
	if r.Method != http.MethodGet {
		return nil, refusal.MethodNotAllowed([]string{http.MethodGet})
	}
	// Another page can make a browser visit a link, and with an image or a fetch it would do so
	// unseen; a person sees a navigation.
	if _, ok := r.Header["Sec-Fetch-Mode"]; ok && !preview.Navigates(r.Header) {
		return nil, foreignOrigin()
	}
	links := r.URL.Query()[preview.LinkParameter]
	if len(links) != 1 {
		return nil, badLink(nil)
	}
	return p.open(preview.Link, name, links[0], "")
}

// open opens what is sealed for a host. That the sealed placement
// is the one that the host names holds by the host being sealed too; it is looked at again,
// because the host came from the browser. page is what is asked for, for where it is renewed; that of
// a link is sealed.
func (p *previews) open(purpose preview.Purpose, name preview.Name, sealed, page string) (*preview.Claims, *refusal.Error) {
	keys := p.keys.current()
	if keys == nil {
		return nil, refusal.Unavailable(refusal.CauseStarting, "the data plane is still reading the keys of preview links: try again", 0, nil)
	}
	claims, err := keys.Open(purpose, name.Host, sealed, p.now())
	switch {
	case errors.Is(err, preview.ErrExpired), err == nil && purpose == preview.Session && !p.now().Before(claims.Ends(p.settings.now().previewSession)):
		return nil, previewExpired(claims.RenewAt(cmp.Or(claims.Path, page)))
	case err != nil:
		return nil, badLink(err)
	case claims.PlacementNamespace() != name.Namespace || claims.Component != name.Component || claims.Port != name.Port:
		return nil, badLink(preview.ErrInvalid)
	}
	return claims, nil
}

// seal seals claims for a host.
func (p *previews) seal(purpose preview.Purpose, host string, claims *preview.Claims) (string, *refusal.Error) {
	sealed, err := p.keys.current().Seal(purpose, host, claims)
	if err != nil {
		return "", refusal.Unavailable(refusal.CausePreviewKeys, "there is no key to seal preview links with: the operator makes one with sandbar-provider init, or adds an entry to the Secret "+p.keys.name, 0, err)
	}
	return sealed, nil
}
