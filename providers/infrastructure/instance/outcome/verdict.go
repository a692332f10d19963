// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"cmp"
	"errors"
	"strings"

	krov1alpha1 "github.com/kubernetes-sigs/kro/api/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/contract"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
)

// Reasons of Placed and Composed; causes.go has those of Composed that name a cause.
const (
	ReasonPlaced        = "Placed"
	ReasonNotConfigured = "ProviderNotConfigured"
	ReasonMisconfigured = "ProviderMisconfigured"
	reasonTerminating   = "FormerPlacementTerminating"
	ReasonRuntimeError  = "RuntimeClusterError"
	ReasonWaiting       = "WaitingForPlacement"
	ReasonSpecRefused   = "SpecRefused"
	reasonComposed      = "Composed"
	ReasonComposing     = "Composing"
	ReasonGraphFailed   = "GraphFailed"
	ReasonDeleting      = "Deleting"
)

// Reasons of Ready. The first five are for the five states of an instance with pods, as
// docs/lifecycle.md tells; the others are for what those do not speak of.
const (
	reasonPodReady        = "SandboxPodReady"
	ReasonPodScalingDown  = "SandboxPodScalingDown"
	reasonPodDeleted      = "SandboxPodDeleted"
	ReasonPodInitializing = "SandboxPodInitializing"
	ReasonPodNotReady     = "SandboxPodNotReady"

	reasonResourcesReady  = "ResourcesReady" // True, of an instance without pods
	reasonNotComposed     = "NotComposed"
	reasonAwaitingOutputs = "AwaitingOutputs"
)

// ReasonNotSuspended is the reason of Suspended while that is false.
const ReasonNotSuspended = "NotSuspended"

// Verdict is what a condition says.
type Verdict struct {
	OK              bool
	Reason, message string
}

// verdicts are those of all conditions.
type verdicts struct {
	placed, composed, suspended, ready Verdict
}

func judge(s *scope.Scope, o Outcome, old sandbarv1alpha1.InstanceStatus) verdicts {
	v := verdicts{placed: stillLost(PlacedVerdict(o), old), suspended: suspendedVerdict(s, o)}
	v.composed = ComposedVerdict(s, v.placed, o)
	v.ready = withLess(o, old, inTime(o, old, v, readyVerdict(s, o, old, v)))
	return forOperators(s, o, v)
}

// PlacedVerdict says whether the placement is there.
func PlacedVerdict(o Outcome) Verdict {
	var configuration *ConfigurationError
	var full *FullError
	var level *LevelError
	var start *StartError
	switch {
	case o.Deleting != "":
		return Verdict{Reason: ReasonDeleting, message: o.Deleting}
	case errors.As(o.Placing, &full):
		return Verdict{Reason: full.Reason, message: full.Message}
	case errors.As(o.Placing, &start):
		return Verdict{Reason: start.Reason, message: start.Message}
	case LossOf(o.Placing) != nil:
		return Verdict{Reason: ReasonPlacementLost, message: o.Placing.Error()}
	case o.Placing == nil:
		return Verdict{OK: true, Reason: ReasonPlaced, message: "the namespace and its isolation exist"}
	case errors.Is(o.Placing, ErrNotConfigured):
		return Verdict{Reason: ReasonNotConfigured, message: "the operator has to create the InfrastructureProvider named " +
			sandbarv1alpha1.InfrastructureProviderName}
	case errors.As(o.Placing, &configuration):
		return Verdict{Reason: ReasonMisconfigured, message: "the operator has to correct the " + configuration.Error()}
	case errors.As(o.Placing, &level):
		return Verdict{Reason: ReasonMisconfigured, message: "the operator has to correct the " + level.Error()}
	case errors.Is(o.Placing, ErrTerminating):
		return Verdict{Reason: reasonTerminating, message: "a former placement is being removed; a new one follows"}
	default:
		return Verdict{Reason: ReasonRuntimeError, message: "the runtime cluster did not take the placement; the provider tries again"}
	}
}

// ComposedVerdict tells how far kro is. What keeps it from going on, if that is known, is the
// reason.
func ComposedVerdict(s *scope.Scope, placed Verdict, o Outcome) Verdict {
	var refused *RefusalError
	switch {
	case o.Deleting != "":
		return Verdict{Reason: ReasonDeleting, message: o.Deleting}
	case placed.Reason == ReasonPlacementLost:
		return Verdict{Reason: ReasonWaiting, message: placed.message}
	case !placed.OK:
		return Verdict{Reason: ReasonWaiting, message: "the placement is not there yet"}
	case LossOf(o.Composing) != nil:
		return Verdict{Reason: LossOf(o.Composing).Reason, message: LossOf(o.Composing).Message}
	case errors.As(o.Composing, &refused):
		return Verdict{Reason: refused.Reason, message: refused.Message}
	case apierrors.IsInvalid(o.Composing):
		return Verdict{Reason: ReasonSpecRefused, message: specRefused(o.Composing)}
	case o.Composing != nil:
		return Verdict{Reason: ReasonRuntimeError, message: "the runtime cluster did not take the instance; the provider tries again"}
	}
	state := graphState(o.Instance)
	current := observed(o.Instance)
	cause := o.Cause()
	switch {
	case current && state == krov1alpha1.InstanceStateActive && !restarts(cause):
		return Verdict{OK: true, Reason: reasonComposed, message: "all resources are there and ready"}
	case cause != nil:
		return Verdict{Reason: cause.Reason, message: cause.Message}
	case !current:
		return Verdict{Reason: ReasonComposing, message: "the resources are being made"}
	case state == krov1alpha1.InstanceStateError:
		return graphFailed(s, o.Instance)
	default:
		return Verdict{Reason: ReasonComposing, message: graphProgress(GraphMessage(o.Instance))}
	}
}

// graphState is kro's word for how far it is.
func graphState(instance *unstructured.Unstructured) krov1alpha1.InstanceState {
	state, _, _ := unstructured.NestedString(instance.Object, "status", "state")
	return krov1alpha1.InstanceState(state)
}

// graphFailed is the verdict on an instance whose resources the runtime cluster does not take.
func graphFailed(s *scope.Scope, instance *unstructured.Unstructured) Verdict {
	message := GraphMessage(instance)
	if ExceedsQuota(message) {
		return Verdict{Reason: ReasonQuota, message: OutOfQuota(message).Message}
	}
	return Verdict{Reason: ReasonGraphFailed, message: graphFailure(s.Template(), message)}
}

// specRefused says what the runtime cluster refuses of a spec. The error names the object there, which says nothing
// to a tenant.
func specRefused(err error) string {
	if why, found := refusedPart(err.Error()); found && why != "" {
		return "correct the spec: " + Detail(why)
	}
	return "correct the spec: the runtime cluster refuses it"
}

// restarts reports whether the cause is a container that is started again and again. kro takes it for
// ready in each round of the loop; a condition that did would be written twice a round.
func restarts(c *Cause) bool { return c != nil && c.failing && c.Reason == ReasonCrashLoop && !c.job }

// readyVerdict tells whether the instance can be used now. What is meant goes before what is:
// the pods of a suspended instance are on their way out, however well they are.
func readyVerdict(s *scope.Scope, o Outcome, old sandbarv1alpha1.InstanceStatus, v verdicts) Verdict {
	cause, why := o.Cause(), v.composed.message
	if cause != nil && cause.job && v.composed.OK {
		cause = nil
	}
	if cause != nil && LossOf(o.Composing) == nil {
		why = cause.Message
	}
	switch {
	case o.Deleting != "":
		return Verdict{Reason: ReasonDeleting, message: o.Deleting}
	case startOfPlacing(o) != nil:
		return v.placed
	case v.suspended.OK && releasing(o, old):
		return Verdict{Reason: ReasonPodScalingDown, message: releaseMessage(o)}
	case v.suspended.OK:
		return Verdict{Reason: reasonPodDeleted, message: v.suspended.message}
	case !v.placed.OK, o.Composing != nil:
		return Verdict{Reason: reasonNotComposed, message: why}
	case cause != nil && cause.failing:
		return Verdict{Reason: ReasonPodNotReady, message: why}
	case v.composed.Reason == ReasonGraphFailed:
		return Verdict{Reason: reasonNotComposed, message: why}
	case cause != nil || v.composed.Reason == ReasonQuota:
		return Verdict{Reason: ReasonPodInitializing, message: why}
	case o.Pods.Ready < o.Pods.Present:
		return Verdict{Reason: ReasonPodInitializing, message: "the pods are starting"}
	case !v.composed.OK && (s.RunsPods() || o.Pods.Present > 0 || resuming(old)):
		return Verdict{Reason: ReasonPodInitializing, message: why}
	case !v.composed.OK:
		return Verdict{Reason: reasonNotComposed, message: why}
	case !outputsThere(s, o.Instance):
		// The path itself is private: a tenant is told that something is missing, not what.
		return Verdict{Reason: reasonAwaitingOutputs, message: "the resources do not name their endpoints yet"}
	case o.Pods.Present > 0:
		return Verdict{OK: true, Reason: reasonPodReady, message: "the instance can be used"}
	default:
		return Verdict{OK: true, Reason: reasonResourcesReady, message: "the instance can be used"}
	}
}

// inTime is the verdict on an instance that may take only so long to become Ready for the first time.
func inTime(o Outcome, old sandbarv1alpha1.InstanceStatus, v verdicts, ready Verdict) Verdict {
	start := cmp.Or(o.Start, old.Start)
	late := !o.Deadline.IsZero() && !o.Now.Before(o.Deadline) && start != nil && start.Times.Ready == nil && start.Reason != sandbarv1alpha1.StartSuspended
	if !late || ready.OK || v.suspended.OK || o.Deleting != "" {
		return ready
	}
	return Verdict{Reason: ReasonStartTimedOut, message: "it has not become Ready within spec.startTimeout: " + ready.message}
}

// withLess says of an instance that can be used that it has not the resources of its template.
func withLess(o Outcome, old sandbarv1alpha1.InstanceStatus, ready Verdict) Verdict {
	if start := cmp.Or(o.Start, old.Start); ready.OK && start != nil && start.Type == sandbarv1alpha1.StartWarm && start.Reason == sandbarv1alpha1.StartResizeInfeasible {
		ready.message += "; it has the resources of its SandboxSet, since its node could not give it those of its template"
	}
	return ready
}

// outputsThere tells whether everything that the contract refers to is there.
func outputsThere(s *scope.Scope, instance *unstructured.Unstructured) bool {
	for _, path := range contract.RefPaths(s.DataPlane()) {
		if contract.OnlyInDevelopment(path) && !contract.InDevelopment(instance.Object) {
			continue
		}
		if hasFormerGraph(s, instance) {
			continue // its graph may not have what the present contract names
		}
		if _, err := contract.Resolve(instance.Object, path); err != nil {
			return false
		}
	}
	return true
}

// hasFormerGraph reports whether the kro instance is composed with a graph that its Template had
// before.
func hasFormerGraph(s *scope.Scope, instance *unstructured.Unstructured) bool {
	graph, _, _ := strings.Cut(s.Revisions().Revision, "-")
	return s.Revisions().Revision != "" && instance.GetLabels()[placement.LabelGraph] != graph
}
