// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"encoding/json"

	"github.com/sandbar-dev/sandbar/dataplane/access"
	"github.com/sandbar-dev/sandbar/dataplane/refusal"
	"github.com/sandbar-dev/sandbar/tenant"
)

// serveStatus answers the status of the tenant's own object, read as the caller. It is read
// for each request: a cached status would show a state that is over. There is no runtime hop,
// and an instance that is pending or being deleted has a status too.
func (h *handler) serveStatus(x *exchange, g access.Grant) *refusal.Error {
	if x.route.Tail != "" {
		return refusal.NotFound(refusal.CauseNoVerb) // there is one status, and it has no parts
	}
	at, refused := h.locate(x, g)
	if refused != nil {
		return refused
	}
	release, refused := h.limits.Admit(at.Owner.Cluster, string(at.Owner.UID), false)
	if refused != nil {
		return refused
	}
	defer release()
	var obj struct {
		Status json.RawMessage `json:"status"`
	}
	got := h.tenant.Get(x.request.Context(), x.question.Caller, x.question.Ref, &obj)
	h.metrics.Access.Called(access.CallGet, got.Outcome)
	if refused := access.Judge(tenant.Answer{Outcome: tenant.Allowed}, got, true); refused != nil {
		return refused
	}
	if len(obj.Status) == 0 {
		obj.Status = json.RawMessage("{}")
	}
	refusal.WriteJSON(x, x.request, 200, obj.Status)
	return nil
}
