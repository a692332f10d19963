// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/contract"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
)

// start serves an instance that has no place yet with a member, if there is one, and reports it: served is true then. If not,
// start says why it starts without one, and is nil for an instance that has its place.
func (r *reconciler) start(ctx context.Context, req request, s *scope.Scope) (start *sandbarv1alpha1.InstanceStart, served bool, err error) {
	switch {
	case s.Pod() == nil || s.Infrastructure() == nil:
		return nil, false, nil
	case s.Placement().Born():
		served, err = r.finishBinding(ctx, req, s)
		return nil, served, err
	case r.capacity.holds(s.Placement().Owner), s.Status().Start != nil:
		// One that says how it came to be has a place, also when another process made it and no cache here shows it yet: with
		// a member it would have two.
		return nil, false, nil
	}
	defer r.members.Serve()()
	start, warm, err := r.begin(ctx, s)
	if err != nil || warm == nil {
		return start, false, err
	}
	claimsTotal.WithLabelValues(sandbarv1alpha1.StartWarm, "").Inc()
	if warm.values != nil {
		return nil, true, r.bind(ctx, req, warm)
	}
	return nil, true, r.serveWarm(ctx, req, warm)
}

// begin is the first look at an instance that has no place yet: it takes a member that a set has ready, and
// warm is what it has then, or start says why it cannot. The error is an *outcome.StartError if it must not start
// without one.
func (r *reconciler) begin(ctx context.Context, s *scope.Scope) (start *sandbarv1alpha1.InstanceStart, warm *adopted, err error) {
	required := requiresMember(s)
	r.capacity.standAside(s.Placement().Owner, required)
	if !required {
		r.members.Leave(requestOf(s.Placement()))
	} else if late := r.late(s); late != nil {
		r.members.Leave(requestOf(s.Placement()))
		return nil, nil, late
	}
	values, err := r.readBinding(ctx, s)
	if err != nil {
		r.members.Leave(requestOf(s.Placement()))
		r.capacity.standAside(s.Placement().Owner, true) // what cannot start takes nobody's place
		return nil, nil, err
	}
	warm, cold, err := r.adopt(ctx, s, values)
	var refused *outcome.RefusalError
	var waits *outcome.StartError
	switch {
	case errors.As(err, &waits):
		r.capacity.standAside(s.Placement().Owner, true) // the member that is being prepared for it has a place
	case err == nil:
		r.members.EndResize(requestOf(s.Placement()))
	}
	switch isRefused := errors.As(err, &refused); {
	case isRefused && required:
		return nil, nil, r.unstarted(s, refused.Reason, refused.Message)
	case isRefused:
		cold = sandbarv1alpha1.StartNoSet // it has no pod; placing it says why
	case err != nil || warm != nil:
		return nil, warm, err
	case required:
		return nil, nil, r.withoutMember(s, cold)
	}
	return startOf(s, sandbarv1alpha1.StartCold, cold, time.Time{}), nil, nil
}

// requiresMember reports whether an instance starts with a member or not at all.
func requiresMember(s *scope.Scope) bool {
	prewarm, _, _ := unstructured.NestedString(s.Object().Object, "spec", contract.PrewarmField)
	return prewarm == contract.PrewarmRequire
}

// startDeadline is when an instance must have been Ready for the first time; zero if it may take any time.
func startDeadline(s *scope.Scope) time.Time {
	said, _, _ := unstructured.NestedString(s.Object().Object, "spec", contract.StartTimeoutField)
	timeout, err := time.ParseDuration(said) // the schema admits nothing else
	switch {
	case s.Pod() == nil, err != nil && !requiresMember(s):
		return time.Time{}
	case err != nil:
		timeout = contract.StartTimeoutDefault
	}
	return s.Object().GetCreationTimestamp().Add(timeout)
}

// late is an *outcome.StartError for an instance whose time to get a member is over.
func (r *reconciler) late(s *scope.Scope) error {
	if r.now().Before(startDeadline(s)) {
		return nil
	}
	return &outcome.StartError{Reason: outcome.ReasonStartTimedOut, Failed: true, Message: "no SandboxSet had a sandbox for it within spec.startTimeout; " +
		"delete it and create it again, or set spec.prewarm to Prefer to have it started without one"}
}

// unstarted is an *outcome.StartError for an instance that goes on waiting.
func (r *reconciler) unstarted(s *scope.Scope, reason, message string) error {
	return &outcome.StartError{Reason: reason, Message: message, Again: r.until(startDeadline(s))}
}

// until is how long it is to a deadline that a look began before. One that has passed since needs another look: nothing else
// wakes an instance that goes on waiting.
func (r *reconciler) until(deadline time.Time) time.Duration {
	return max(deadline.Sub(r.now()), time.Millisecond)
}

// withoutMember is an *outcome.StartError for why an instance would start cold.
func (r *reconciler) withoutMember(s *scope.Scope, cold string) error {
	switch cold {
	case sandbarv1alpha1.StartNoSet:
		return r.unstarted(s, outcome.ReasonWaitsForMember, "no SandboxSet of this namespace keeps sandboxes of its template; create one, or set spec.prewarm to Prefer")
	case sandbarv1alpha1.StartSetEmpty:
		return r.unstarted(s, outcome.ReasonWaitsForMember, "the SandboxSet has no sandbox that is ready; it takes the next one, in the order of creation")
	case sandbarv1alpha1.StartResizeInfeasible:
		return r.unstarted(s, outcome.ReasonWaitsForMember, "the sandboxes of the SandboxSet cannot get the resources of their template where they run; "+
			"it waits for one that has them, or set spec.resize to BestEffort, or spec.prewarm to Prefer")
	}
	r.members.Leave(requestOf(s.Placement()))
	return &outcome.StartError{
		Reason: outcome.ReasonWarmImpossible, Message: impossible[cold] + ", and spec.prewarm is Require; set that to Prefer, or correct this", Failed: true,
	}
}

// impossible says why an instance cannot take any member.
var impossible = map[string]string{
	sandbarv1alpha1.StartOwnPodTemplate:    "it has a pod template of its own",
	sandbarv1alpha1.StartSuspended:         "it is suspended",
	sandbarv1alpha1.StartPatchDiffers:      "it patches its template",
	sandbarv1alpha1.StartVolumesDiffer:     "it has volumeClaimTemplates of its own",
	sandbarv1alpha1.StartEnvNeedsColdStart: "it has spec.env or spec.envFrom, and its template has no spec.runtime that gives them to a pod which runs",
}
