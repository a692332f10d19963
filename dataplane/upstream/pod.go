// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"net/http"
	"net/url"

	"github.com/sandbar-dev/sandbar/dataplane/locate"
	"github.com/sandbar-dev/sandbar/dataplane/refusal"
	"github.com/sandbar-dev/sandbar/pkg/contract"
)

// subresource is the way to a subresource of a Pod, with the provider's credential. Of the caller's
// request goes there what is named in here and nothing else: the API server reads headers and
// parameters that would have it do other things with the provider's rights.
func (a *apiServer) subresource(c *Call, to *locate.Target) (Way, *refusal.Error) {
	if c.Route.Tail != "" && c.Route.Tail != "/" {
		return Way{}, refusal.Malformed("this verb has no paths below it")
	}
	up := Way{rt: a, header: http.Header{"User-Agent": {"sandbar-dataplane"}}}
	var (
		query   url.Values
		refused *refusal.Error
	)
	if to.Subresource == contract.PodLog {
		query, refused = podLogQuery(c.Request.URL.Query(), to)
	} else if refused = podHandshake(up.header, c.Request.Header, to.Subresource); refused == nil {
		// Only now: parameters in the form of another protocol are to be told the protocol.
		query, refused = podStreamQuery(c.Request.URL.RawQuery, to)
	}
	if refused != nil {
		return Way{}, refused
	}
	u := a.base
	u.Path += "/api/v1/namespaces/" + to.Namespace + "/pods/" + to.Pod.Name + "/" + to.Subresource
	if to.Subresource == contract.PodExec {
		up.exec = a.markExec(query, to, u)
	}
	u.RawQuery = query.Encode()
	up.url = &u
	return up, nil
}

// judgeSubresource replaces the API server's errors, which name namespaces, pods and nodes, and
// keeps from the caller whatever headers it sends of its own.
func judgeSubresource(to *locate.Target, res *http.Response) *refusal.Error {
	for name := range res.Header {
		if name != "Content-Type" {
			delete(res.Header, name)
		}
	}
	switch {
	case res.StatusCode == http.StatusOK && to.Subresource == contract.PodLog:
		return nil
	case res.StatusCode == http.StatusBadRequest || res.StatusCode == http.StatusNotFound:
		return refusal.NotReady("the verb "+to.Subresource+" is not there yet: wait until the instance's container has started", nil)
	}
	return refusal.BadGateway(refusal.CauseUnreachable, "the instance's "+to.Subresource+" cannot be reached: try again, and if that does not help tell the operator", errAPIServer)
}
