// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	krov1alpha1 "github.com/kubernetes-sigs/kro/api/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/contract"
)

// maxMessage bounds the message of a condition, in bytes. kro's messages hold those of all
// resources that fail, which may be many times the status itself.
const maxMessage = 1024

// Reasons of an instance's conditions.
const (
	reasonPlaced          = "Placed"
	reasonNotConfigured   = "ProviderNotConfigured"
	reasonMisconfigured   = "ProviderMisconfigured"
	reasonTerminating     = "FormerPlacementTerminating"
	reasonRuntimeError    = "RuntimeClusterError"
	reasonWaiting         = "WaitingForPlacement"
	reasonSpecRefused     = "SpecRefused"
	reasonComposed        = "Composed"
	reasonComposing       = "Composing"
	reasonGraphFailed     = "GraphFailed"
	reasonReady           = "Ready"
	reasonSuspended       = "Suspended"
	reasonNotComposed     = "NotComposed"
	reasonAwaitingOutputs = "AwaitingOutputs"
	reasonDeleting        = "Deleting"
)

// errNotConfigured means that the operator has not created the InfrastructureProvider.
var errNotConfigured = errors.New("the provider is not configured")

// outcome is how far a reconcile came.
type outcome struct {
	// placing and composing are the errors of those steps.
	placing, composing error
	// instance is the kro instance; nil until it exists.
	instance *unstructured.Unstructured
	// deleting says what a deletion waits for; empty when the instance is not being deleted.
	deleting string
}

// verdict is what a condition says.
type verdict struct {
	ok              bool
	reason, message string
}

// buildStatus computes the whole status from the runtime's state. Of the tenant's own status
// it keeps the times, of the conditions and, while they are young, of the last use.
func buildStatus(s *scope, o outcome) (map[string]any, error) {
	old, err := readStatus(s.object)
	if err != nil {
		return nil, err
	}
	generation := s.object.GetGeneration()
	placed := placedVerdict(o)
	composed := composedVerdict(placed, o)
	ready := readyVerdict(s, composed, o)
	status := sandbarv1alpha1.InstanceStatus{
		ObservedGeneration: generation,
		Phase:              phase(o, placed, composed, ready),
		DataPlane:          dataPlaneOf(s),
		Activity:           activity(old.Activity, s),
		Conditions: conditions(old.Conditions, generation, []metav1.Condition{
			placed.condition(sandbarv1alpha1.InstancePlaced),
			composed.condition(sandbarv1alpha1.InstanceComposed),
			ready.condition(sandbarv1alpha1.InstanceReadyCondition),
		}),
	}
	own, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&status)
	if err != nil {
		return nil, fmt.Errorf("encoding the status: %w", err)
	}
	return withGraphFields(own, s, o.instance), nil
}

// readStatus reads what earlier reconciles wrote. A tenant cannot write it, and nothing but
// times and the activity is taken from it.
func readStatus(obj *unstructured.Unstructured) (sandbarv1alpha1.InstanceStatus, error) {
	var status sandbarv1alpha1.InstanceStatus
	fields, ok := obj.Object["status"].(map[string]any)
	if !ok {
		return status, nil
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &status); err != nil {
		return status, fmt.Errorf("decoding the status: %w", err)
	}
	return status, nil
}

// activity tells when the instance was last used. A time that moved less than the interval is
// left as it is, however many replicas of the data plane write.
func activity(old *sandbarv1alpha1.InstanceActivity, s *scope) *sandbarv1alpha1.InstanceActivity {
	used := metav1.NewTime(s.lastUsed.Truncate(time.Second))
	known := old != nil && old.LastActiveTime != nil
	if s.lastUsed.IsZero() || (known && used.Sub(old.LastActiveTime.Time).Abs() < s.activityInterval()) {
		return old
	}
	return &sandbarv1alpha1.InstanceActivity{LastActiveTime: &used}
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

func composedVerdict(placed verdict, o outcome) verdict {
	switch {
	case o.deleting != "":
		return verdict{reason: reasonDeleting, message: o.deleting}
	case !placed.ok:
		return verdict{reason: reasonWaiting, message: "the placement is not there yet"}
	case apierrors.IsInvalid(o.composing):
		return verdict{reason: reasonSpecRefused, message: "correct the spec: " + o.composing.Error()}
	case o.composing != nil:
		return verdict{reason: reasonRuntimeError, message: "the runtime cluster did not take the instance; the provider tries again"}
	}
	state, _, _ := unstructured.NestedString(o.instance.Object, "status", "state")
	switch message := graphMessage(o.instance); {
	case !observed(o.instance):
		return verdict{reason: reasonComposing, message: "the resources are being made"}
	case state == string(krov1alpha1.InstanceStateActive):
		return verdict{ok: true, reason: reasonComposed, message: "all resources are there and ready"}
	case state == string(krov1alpha1.InstanceStateError):
		return verdict{reason: reasonGraphFailed, message: message}
	default:
		return verdict{reason: reasonComposing, message: message}
	}
}

func readyVerdict(s *scope, composed verdict, o outcome) verdict {
	switch {
	case o.deleting != "":
		return verdict{reason: reasonDeleting, message: o.deleting}
	case !composed.ok:
		return verdict{reason: reasonNotComposed, message: composed.message}
	case suspended(s.object):
		return verdict{reason: reasonSuspended, message: "set spec.suspended to false to resume"}
	}
	for _, path := range contract.RefPaths(&s.dataPlane) {
		if contract.OnlyInDevelopment(path) && !contract.InDevelopment(o.instance.Object) {
			continue
		}
		// The path itself is private: a tenant is told that something is missing, not what.
		if _, err := contract.Resolve(o.instance.Object, path); err != nil {
			return verdict{reason: reasonAwaitingOutputs, message: "the resources do not name their endpoints yet"}
		}
	}
	return verdict{ok: true, reason: reasonReady, message: "the instance can be used"}
}

func phase(o outcome, placed, composed, ready verdict) sandbarv1alpha1.InstancePhase {
	switch {
	case o.deleting != "":
		return sandbarv1alpha1.InstanceDeleting
	case !placed.ok:
		return sandbarv1alpha1.InstancePending
	case composed.reason == reasonGraphFailed, composed.reason == reasonSpecRefused:
		return sandbarv1alpha1.InstanceFailed
	case ready.reason == reasonSuspended:
		return sandbarv1alpha1.InstanceSuspended
	case ready.ok:
		return sandbarv1alpha1.InstanceReady
	default:
		return sandbarv1alpha1.InstanceMaterializing
	}
}

// suspended reads the field that is reserved in every graph's spec.
func suspended(obj *unstructured.Unstructured) bool {
	value, _, _ := unstructured.NestedBool(obj.Object, "spec", "suspended")
	return value
}

// observed tells whether kro's status speaks of the instance's present spec. Without this
// check an instance whose spec just changed would still be called ready. A graph that declares
// conditions of its own may hide kro's; then its state is all there is to go by.
func observed(instance *unstructured.Unstructured) bool {
	generation := instance.GetGeneration()
	ready, found := graphCondition(instance, string(krov1alpha1.InstanceConditionTypeReady))
	if !found {
		_, hasState, _ := unstructured.NestedString(instance.Object, "status", "state")
		return hasState
	}
	seen, found, _ := unstructured.NestedInt64(ready, "observedGeneration")
	return !found || seen == generation
}

// graphMessage is what kro says of the resources: the message of the condition that is false.
func graphMessage(instance *unstructured.Unstructured) string {
	for _, name := range []krov1alpha1.ConditionType{
		krov1alpha1.InstanceConditionTypeResourcesReady,
		krov1alpha1.InstanceConditionTypeGraphResolved,
		krov1alpha1.InstanceConditionTypeInstanceManaged,
		krov1alpha1.InstanceConditionTypeReady,
	} {
		condition, found := graphCondition(instance, string(name))
		status, _, _ := unstructured.NestedString(condition, "status")
		message, _, _ := unstructured.NestedString(condition, "message")
		if found && status != string(metav1.ConditionTrue) && message != "" {
			return message
		}
	}
	return "the resources are being made"
}

func graphCondition(instance *unstructured.Unstructured, name string) (map[string]any, bool) {
	list, _, _ := unstructured.NestedSlice(instance.Object, "status", "conditions")
	for _, item := range list {
		if condition, ok := item.(map[string]any); ok && condition["type"] == name {
			return condition, true
		}
	}
	return nil, false
}

// dataPlaneOf says where the verbs are served; nil when there are none or no address is set.
func dataPlaneOf(s *scope) *sandbarv1alpha1.InstanceDataPlane {
	verbs := contract.Verbs(&s.dataPlane)
	if len(verbs) == 0 || s.infrastructure == nil || s.infrastructure.DataPlane.URL == "" {
		return nil
	}
	path := []string{
		"dataplane", "clusters", s.id.Cluster, "namespaces", s.object.GetNamespace(), s.resource, s.object.GetName(),
	}
	for i, segment := range path {
		path[i] = url.PathEscape(segment)
	}
	return &sandbarv1alpha1.InstanceDataPlane{
		URL:   strings.TrimSuffix(s.infrastructure.DataPlane.URL, "/") + "/" + strings.Join(path, "/"),
		Verbs: verbs,
	}
}

// withGraphFields adds the graph's own status fields. What the contract refers to stays
// private, and what is Sandbar's or kro's own is not taken from a graph.
func withGraphFields(own map[string]any, s *scope, instance *unstructured.Unstructured) map[string]any {
	if instance == nil {
		return own
	}
	fields, _, _ := unstructured.NestedMap(instance.Object, "status") // a copy
	for _, path := range contract.RefPaths(&s.dataPlane) {
		removePath(fields, strings.Split(strings.TrimPrefix(path, "status."), "."))
	}
	for name, value := range fields {
		if !slices.Contains(notOfTheGraph, name) {
			own[name] = value
		}
	}
	return own
}

var notOfTheGraph = []string{
	"state", "conditions", // kro's
	"observedGeneration", "phase", "dataPlane", "activity", "suspension", // Sandbar's
}

// removePath removes a field and the parents that it leaves empty.
func removePath(fields map[string]any, path []string) {
	if len(path) > 1 {
		child, ok := fields[path[0]].(map[string]any)
		if !ok {
			return
		}
		removePath(child, path[1:])
		if len(child) > 0 {
			return
		}
	}
	delete(fields, path[0])
}

func (v verdict) condition(name string) metav1.Condition {
	status := metav1.ConditionFalse
	if v.ok {
		status = metav1.ConditionTrue
	}
	return metav1.Condition{Type: name, Status: status, Reason: v.reason, Message: shortened(v.message)}
}

// conditions keeps the time of a condition whose status did not change.
func conditions(old []metav1.Condition, generation int64, wanted []metav1.Condition) []metav1.Condition {
	var kept []metav1.Condition
	for _, condition := range wanted {
		if before := meta.FindStatusCondition(old, condition.Type); before != nil {
			kept = append(kept, *before)
		}
		condition.ObservedGeneration = generation
		meta.SetStatusCondition(&kept, condition)
	}
	return kept
}

func shortened(message string) string {
	if len(message) <= maxMessage {
		return message
	}
	return strings.ToValidUTF8(message[:maxMessage-len("…")], "") + "…"
}
