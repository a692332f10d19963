// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"errors"
	"time"

	krov1alpha1 "github.com/kubernetes-sigs/kro/api/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/contract"
)

// Reasons of Placed and Composed; causes.go has those of Composed that name a cause.
const (
	reasonPlaced        = "Placed"
	reasonNotConfigured = "ProviderNotConfigured"
	reasonMisconfigured = "ProviderMisconfigured"
	reasonTerminating   = "FormerPlacementTerminating"
	reasonRuntimeError  = "RuntimeClusterError"
	reasonWaiting       = "WaitingForPlacement"
	reasonSpecRefused   = "SpecRefused"
	reasonComposed      = "Composed"
	reasonComposing     = "Composing"
	reasonGraphFailed   = "GraphFailed"
	reasonDeleting      = "Deleting"
)

// Reasons of Ready. The first five are for the five states of an instance with pods, as
// docs/lifecycle.md tells; the others are for what those do not speak of.
const (
	reasonPodReady        = "SandboxPodReady"
	reasonPodScalingDown  = "SandboxPodScalingDown"
	reasonPodDeleted      = "SandboxPodDeleted"
	reasonPodInitializing = "SandboxPodInitializing"
	reasonPodNotReady     = "SandboxPodNotReady"

	reasonResourcesReady  = "ResourcesReady" // True, of an instance without pods
	reasonNotComposed     = "NotComposed"
	reasonAwaitingOutputs = "AwaitingOutputs"
)

// reasonNotSuspended is the reason of Suspended while that is false.
const reasonNotSuspended = "NotSuspended"

// errNotConfigured means that the operator has not created the InfrastructureProvider.
var errNotConfigured = errors.New("the provider is not configured")

// refusal is an error of composing that only another spec, or the operator, mends.
type refusal struct {
	// reason is that of Composed; message tells what is wrong and what to do.
	reason, message string
	// recheck is after which time to look again for what no event tells of; zero means never.
	recheck time.Duration
}

func (r *refusal) Error() string { return r.message }

// verdict is what a condition says.
type verdict struct {
	ok              bool
	reason, message string
}

// verdicts are those of all conditions.
type verdicts struct {
	placed, composed, suspended, ready verdict
}

func judge(s *scope, o outcome, old sandbarv1alpha1.InstanceStatus) verdicts {
	v := verdicts{placed: placedVerdict(o), suspended: suspendedVerdict(s)}
	v.composed = composedVerdict(v.placed, o)
	v.ready = readyVerdict(s, o, old, v)
	return v
}

func placedVerdict(o outcome) verdict {
	var configuration *configurationError
	switch {
	case o.deleting != "":
		return verdict{reason: reasonDeleting, message: o.deleting}
	case o.placing == nil:
		return verdict{ok: true, reason: reasonPlaced, message: "the namespace and its isolation exist"}
	case errors.Is(o.placing, errNotConfigured):
		return verdict{reason: reasonNotConfigured, message: "the operator has to create the InfrastructureProvider named " +
			sandbarv1alpha1.InfrastructureProviderName}
	case errors.As(o.placing, &configuration):
		return verdict{reason: reasonMisconfigured, message: "the operator has to correct the " + configuration.Error()}
	case errors.Is(o.placing, errTerminating):
		return verdict{reason: reasonTerminating, message: "a former placement is being removed; a new one follows"}
	default:
		return verdict{reason: reasonRuntimeError, message: "the runtime cluster did not take the placement; the provider tries again"}
	}
}

// composedVerdict tells how far kro is. What keeps it from going on, if that is known, is the
// reason.
func composedVerdict(placed verdict, o outcome) verdict {
	var refused *refusal
	switch {
	case o.deleting != "":
		return verdict{reason: reasonDeleting, message: o.deleting}
	case !placed.ok:
		return verdict{reason: reasonWaiting, message: "the placement is not there yet"}
	case errors.As(o.composing, &refused):
		return verdict{reason: refused.reason, message: refused.message}
	case apierrors.IsInvalid(o.composing):
		return verdict{reason: reasonSpecRefused, message: "correct the spec: " + o.composing.Error()}
	case o.composing != nil:
		return verdict{reason: reasonRuntimeError, message: "the runtime cluster did not take the instance; the provider tries again"}
	}
	state, _, _ := unstructured.NestedString(o.instance.Object, "status", "state")
	current := observed(o.instance)
	cause := o.cause()
	switch {
	case current && state == string(krov1alpha1.InstanceStateActive):
		return verdict{ok: true, reason: reasonComposed, message: "all resources are there and ready"}
	case cause != nil:
		return verdict{reason: cause.reason, message: cause.message}
	case !current:
		return verdict{reason: reasonComposing, message: "the resources are being made"}
	case state == string(krov1alpha1.InstanceStateError):
		message := graphMessage(o.instance)
		if exceedsQuota(message) {
			return verdict{reason: reasonQuota, message: outOfQuota(message).message}
		}
		return verdict{reason: reasonGraphFailed, message: message}
	default:
		return verdict{reason: reasonComposing, message: graphMessage(o.instance)}
	}
}

// readyVerdict tells whether the instance can be used now. What is meant goes before what is:
// the pods of a suspended instance are on their way out, however well they are.
func readyVerdict(s *scope, o outcome, old sandbarv1alpha1.InstanceStatus, v verdicts) verdict {
	cause, why := o.cause(), v.composed.message
	if cause != nil && cause.job && v.composed.ok {
		cause = nil
	}
	if cause != nil {
		why = cause.message
	}
	switch {
	case o.deleting != "":
		return verdict{reason: reasonDeleting, message: o.deleting}
	case v.suspended.ok && releasing(o):
		return verdict{reason: reasonPodScalingDown, message: "the pods are being released"}
	case v.suspended.ok:
		return verdict{reason: reasonPodDeleted, message: v.suspended.message}
	case !v.placed.ok, o.composing != nil:
		return verdict{reason: reasonNotComposed, message: why}
	case cause != nil && cause.failing:
		return verdict{reason: reasonPodNotReady, message: why}
	case v.composed.reason == reasonGraphFailed:
		return verdict{reason: reasonNotComposed, message: why}
	case cause != nil || v.composed.reason == reasonQuota:
		return verdict{reason: reasonPodInitializing, message: why}
	case o.pods.ready < o.pods.present:
		return verdict{reason: reasonPodInitializing, message: "the pods are starting"}
	case !v.composed.ok && (o.pods.present > 0 || resuming(old)):
		return verdict{reason: reasonPodInitializing, message: why}
	case !v.composed.ok:
		return verdict{reason: reasonNotComposed, message: why}
	case !outputsThere(s, o.instance):
		// The path itself is private: a tenant is told that something is missing, not what.
		return verdict{reason: reasonAwaitingOutputs, message: "the resources do not name their endpoints yet"}
	case o.pods.present > 0:
		return verdict{ok: true, reason: reasonPodReady, message: "the instance can be used"}
	default:
		return verdict{ok: true, reason: reasonResourcesReady, message: "the instance can be used"}
	}
}

// outputsThere tells whether everything that the contract refers to is there.
func outputsThere(s *scope, instance *unstructured.Unstructured) bool {
	for _, path := range contract.RefPaths(&s.dataPlane) {
		if contract.OnlyInDevelopment(path) && !contract.InDevelopment(instance.Object) {
			continue
		}
		if _, err := contract.Resolve(instance.Object, path); err != nil {
			return false
		}
	}
	return true
}
