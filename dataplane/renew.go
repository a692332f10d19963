// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/dataplane/access"
	"github.com/sandbar-dev/sandbar/dataplane/refusal"
	"github.com/sandbar-dev/sandbar/tenant"
)

const (
	// maxRenewalBytes bounds the body of a renewal, which holds one time or one duration.
	maxRenewalBytes = 4096
	// renewMost is how far ahead a shutdown time may be set by a renewal; who wants more writes
	// the object.
	renewMost = 366 * 24 * time.Hour
)

// renewal is the body of the verb renew, which may be empty: then the instance is used, and nothing
// else.
type renewal struct {
	// ShutdownTime is the new spec.lifecycle.shutdownTime.
	ShutdownTime *metav1.Time `json:"shutdownTime,omitempty"`
	// Extend is by how much to move spec.lifecycle.shutdownTime, such as "2h"; one that has
	// passed counts from now.
	Extend *metav1.Duration `json:"extend,omitempty"`
}

// renewed is what the verb renew answers.
type renewed struct {
	// LastActiveTime is when the instance was last used: now.
	LastActiveTime metav1.Time                   `json:"lastActiveTime"`
	ShutdownTime   *metav1.Time                  `json:"shutdownTime,omitempty"`
	Phase          sandbarv1alpha1.InstancePhase `json:"phase,omitempty"`
}

// lifetime is what a renewal reads and writes of the tenant's object.
type lifetime struct {
	Spec struct {
		Lifecycle struct {
			ShutdownTime *metav1.Time `json:"shutdownTime,omitempty"`
		} `json:"lifecycle"`
	} `json:"spec"`
	Status struct {
		Phase sandbarv1alpha1.InstancePhase `json:"phase,omitempty"`
	} `json:"status,omitzero"`
}

// serveRenew uses the instance without asking anything of it, and moves its shutdown time, as the
// caller, who needs the right to patch it for that.
func (h *handler) serveRenew(x *exchange, g access.Grant) *refusal.Error {
	if !x.kind.Declares(x.route) || x.route.Tail != "" {
		return refusal.NotFound(refusal.CauseNoVerb)
	}
	if x.request.Method != http.MethodPost {
		return refusal.MethodNotAllowed([]string{http.MethodPost})
	}
	at, refused := h.locate(x, g)
	if refused != nil {
		return refused
	}
	if g.Deleting {
		return refusal.NotFound(refusal.CauseDeleting)
	}
	x.owner = at.Asked
	leave, refused := h.limits.Admit(at.Owner.Cluster, string(at.Owner.UID), false)
	if refused != nil {
		return refused
	}
	defer leave()
	wanted, refused := x.renewal()
	if refused != nil {
		return refused
	}
	x.use = h.activity.Begin(at.ID.ID)
	if refused := h.activity.Recorded(x.request.Context(), x.use, at.ID.ID); refused != nil {
		return refused // the answer says that it is on record
	}
	now := time.Now()
	object, refused := h.renew(x, wanted, now)
	if refused != nil {
		return refused
	}
	refusal.WriteJSON(x, x.request, http.StatusOK, renewed{
		LastActiveTime: metav1.NewTime(now.UTC()), ShutdownTime: object.Spec.Lifecycle.ShutdownTime, Phase: object.Status.Phase,
	})
	return nil
}

// renewal reads the body.
func (x *exchange) renewal() (wanted renewal, refused *refusal.Error) {
	body, refused := x.body(maxRenewalBytes)
	if refused != nil || len(bytes.TrimSpace(body)) == 0 {
		return wanted, refused
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&wanted); err != nil || decoder.More() {
		return wanted, refusal.Malformed(`the body must be empty, {"shutdownTime": "2026-01-02T15:04:05Z"} or {"extend": "2h"}`)
	}
	if wanted.ShutdownTime != nil && wanted.Extend != nil {
		return wanted, refusal.Malformed("a renewal has shutdownTime or extend, not both")
	}
	return wanted, nil
}

// renew reads the tenant's object and moves its shutdown time, if that is wanted.
func (h *handler) renew(x *exchange, wanted renewal, now time.Time) (*lifetime, *refusal.Error) {
	object := &lifetime{}
	got := h.tenant.Get(x.request.Context(), x.question.Caller, x.question.Ref, object)
	h.metrics.Access.Called(access.CallGet, got.Outcome)
	if refused := access.Judge(tenant.Answer{Outcome: tenant.Allowed}, got, true); refused != nil {
		return nil, refused
	}
	until, err := wanted.until(object.Spec.Lifecycle.ShutdownTime, now)
	if err != nil {
		return nil, refusal.Malformed(err.Error())
	}
	if until == nil {
		return object, nil
	}
	if _, known := x.question.Caller.User(); known {
		refused := refusal.Forbidden()
		refused.Message = "access denied: a shutdown time is written with the caller's own token, and you came without one; an empty renewal needs none"
		return nil, refused
	}
	patch := lifetime{}
	patch.Spec.Lifecycle.ShutdownTime = until
	got = h.tenant.Patch(x.request.Context(), x.question.Caller, x.question.Ref, patch, object)
	h.metrics.Access.Called(access.CallPatch, got.Outcome)
	if got.Outcome == tenant.Denied {
		refused := refusal.Forbidden()
		refused.Message = "access denied: a shutdown time is a field of the instance, so you need the right to patch " + x.route.Resource
		return nil, refused
	}
	return object, access.Judge(tenant.Answer{Outcome: tenant.Allowed}, got, true)
}

var (
	errNoShutdownTime = errors.New("the instance has no spec.lifecycle.shutdownTime to extend: write one into the instance, or send shutdownTime instead")
	errNotAhead       = errors.New("the shutdown time must lie ahead")
	errTooFarAhead    = fmt.Errorf("the shutdown time must lie within %d days", renewMost/(24*time.Hour))
)

// until is the shutdown time that a renewal wants; nil for none.
func (r renewal) until(current *metav1.Time, now time.Time) (*metav1.Time, error) {
	var at time.Time
	switch {
	case r.ShutdownTime != nil:
		at = r.ShutdownTime.Time
	case r.Extend == nil:
		return nil, nil //nolint:nilnil // nothing is wanted
	case current == nil:
		return nil, errNoShutdownTime
	case r.Extend.Duration <= 0:
		return nil, errNotAhead
	case r.Extend.Duration > renewMost: // also keeps the sum below from overflowing
		return nil, errTooFarAhead
	default:
		at = current.Time
		if at.Before(now) {
			at = now
		}
		at = at.Add(r.Extend.Duration)
	}
	switch {
	case !at.After(now):
		return nil, errNotAhead
	case at.After(now.Add(renewMost)):
		return nil, errTooFarAhead
	}
	return &metav1.Time{Time: at.UTC().Truncate(time.Second)}, nil
}
