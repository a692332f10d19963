// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"github.com/sandbar-dev/sandbar/dataplane/access"
	"github.com/sandbar-dev/sandbar/dataplane/refusal"
	"github.com/sandbar-dev/sandbar/tenant"
)

// identify finds out who calls. What a front proxy says goes before a token, as in Kubernetes: a
// proxy that has verified a token may pass it on all the same.
func (h *handler) identify(x *exchange) (tenant.Caller, *refusal.Error) {
	if caller, ok := h.front.Identify(x.request); ok && !caller.IsZero() {
		x.authenticatedBy = access.AuthenticatedByRequestHeader
		return caller, nil
	}
	caller, refused := access.IdentifyByToken(x.request)
	if refused == nil {
		x.authenticatedBy = access.AuthenticatedByToken
	}
	return caller, refused
}
