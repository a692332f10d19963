// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sandbar-dev/sandbar/dataplane/access"
	"github.com/sandbar-dev/sandbar/dataplane/refusal"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// passwordTimeout bounds the question to the runtime cluster.
const passwordTimeout = 10 * time.Second

// password is the answer of a verb with "from: password".
type password struct {
	Password string `json:"password"` //nolint:gosec // it is what the caller asks for
}

// servePassword answers the password that the provider has made for what the instance runs. It is
// read for each request and kept nowhere: what is not in memory cannot leak from it.
func (h *handler) servePassword(x *exchange, g access.Grant) *refusal.Error {
	if x.route.Tail != "" {
		return refusal.NotFound(refusal.CauseNoVerb)
	}
	at, refused := h.place(x, g)
	if refused != nil {
		return refused
	}
	x.owner = at.Owner
	if refused = h.admit(x, at); refused != nil {
		return refused
	}
	ctx, cancel := context.WithTimeout(x.request.Context(), passwordTimeout)
	defer cancel()
	secret, err := h.secrets.Secrets(at.ID.Namespace()).Get(ctx, placement.PasswordSecret, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return refusal.NotReady("the instance has no password yet: wait for its condition Placed", err)
	case apierrors.IsForbidden(err):
		return &refusal.Error{Code: http.StatusBadGateway, Reason: metav1.StatusReasonServiceUnavailable, Cause: refusal.CausePassword, Message: "the provider may not read the instance's password: tell the operator", Err: err}
	case err != nil:
		return refusal.Unavailable(refusal.CauseStarting, "the password could not be read: try again", 0, err)
	}
	// A Secret that somebody else has put there is not ours to give away.
	if err := at.ID.Check(secret); err != nil {
		return &refusal.Error{Code: http.StatusBadGateway, Reason: metav1.StatusReasonServiceUnavailable, Cause: refusal.CauseForeignRef, Message: "the instance's password is not its own: ask the operator", Err: err}
	}
	if len(secret.Data[placement.PasswordKey]) == 0 {
		return refusal.NotReady("the instance has no password yet: wait for its condition Placed", nil)
	}
	refusal.WriteJSON(x, x.request, http.StatusOK, password{string(secret.Data[placement.PasswordKey])})
	return nil
}
