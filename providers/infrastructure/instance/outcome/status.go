// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/contract"
	"github.com/sandbar-dev/sandbar/pkg/inuse"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/lifecycle"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
)

// MaxMessage bounds the message of a condition, in bytes. kro's messages hold those of all
// resources that fail, which may be many times the status itself.
const MaxMessage = 1024

// Outcome is how far a reconcile came.
type Outcome struct {
	// Placing and composing are the errors of those steps.
	Placing, Composing error
	// Plan is the lifecycle's decision on the instance, turn its part in a change of the operator.
	Plan Plan
	Turn Turn
	// Instance is the kro instance; nil until it exists.
	Instance *unstructured.Unstructured
	// Copies are those of an instance whose kind has copies of workloads; nil for another one, and before they are made.
	Copies *Copies
	// Start is how the instance has come to be, in the look in which it did; nil in all others.
	Start *sandbarv1alpha1.InstanceStart
	// Deadline is when an instance must have been Ready for the first time; zero for none.
	Deadline time.Time
	// Lost is what was deleted on the runtime cluster and is not told yet; nil for nothing.
	Lost *LossError
	// Deleting says what a deletion waits for; empty when the instance is not being deleted.
	Deleting string
	Observation
	// Now is when the runtime cluster was looked at.
	Now time.Time
}

// Observation is what the runtime cluster says of a placement's pods and volumes.
type Observation struct {
	// Pods is what the placement's pods say.
	Pods PodSummary
	// Finding is why a pod could not be made or started, if an event tells.
	Finding *Cause
	// Volumes tells that a suspended instance keeps volumes.
	Volumes bool
	// Recheck is after which time to look again although nothing changes; zero means never.
	Recheck time.Duration
}

// GoesOn reports whether no step has failed.
func (o Outcome) GoesOn() bool { return o.Placing == nil && o.Composing == nil }

// Cause is what keeps the instance from being ready, or nil.
func (o Observation) Cause() *Cause {
	// A pod says that its volume does not come; an event says why.
	if o.Pods.Cause == nil || o.Finding != nil && o.Pods.Cause.Reason == ReasonVolume {
		return o.Finding
	}
	return o.Pods.Cause
}

// BuildStatus computes the whole status from the runtime's state. Of the tenant's own status
// it keeps the times: of the conditions, of the suspension and, while it is young, of the last
// use; and whether the instance was ready or suspended before.
func BuildStatus(s *scope.Scope, o Outcome) (map[string]any, error) {
	old, generation := s.Status(), s.Object().GetGeneration()
	v := judge(s, o, old)
	status := sandbarv1alpha1.InstanceStatus{
		ObservedGeneration: generation,
		Phase:              phase(s, o, old, v),
		DataPlane:          DataPlaneOf(s, s.DataPlane(), s.Components()),
		Activity:           activity(old.Activity, s, o.Plan.Used),
		Suspension:         suspensionOf(s, o, old),
		Start:              startOf(o, old, v.ready.OK),
		CreatedBy:          creatorOf(s),
		Conditions: append(conditions(old.Conditions, generation, o.Now, []metav1.Condition{
			v.placed.condition(sandbarv1alpha1.InstancePlaced),
			v.composed.condition(sandbarv1alpha1.InstanceComposed),
			v.suspended.condition(sandbarv1alpha1.InstanceSuspendedCondition),
			v.ready.condition(sandbarv1alpha1.InstanceReadyCondition),
		}), lostCondition(s, old, o)...),
	}
	own, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&status)
	if err != nil {
		return nil, fmt.Errorf("encoding the status: %w", err)
	}
	return withCopies(withGraphFields(own, s, shown(s, o, old)), s, o)
}

// shown is the object whose fields of the graph the status has: the kro instance or, while a container is
// started again and again, the tenant's own, so that they stay. How many pods are ready, which graphs
// say, changes twice in each round of such a loop.
func shown(s *scope.Scope, o Outcome, old sandbarv1alpha1.InstanceStatus) *unstructured.Unstructured {
	was := meta.FindStatusCondition(old.Conditions, sandbarv1alpha1.InstanceComposed)
	current := s.Seen(old.ObservedGeneration) && was != nil && was.Reason == ReasonCrashLoop
	if c := o.Cause(); current && restarts(c) && c.loops {
		return s.Object()
	}
	return o.Instance
}

// ReadStatus reads what earlier reconciles wrote. A tenant cannot write it, and nothing is
// decided by it but what the next status says.
func ReadStatus(obj *unstructured.Unstructured) (sandbarv1alpha1.InstanceStatus, error) {
	var status sandbarv1alpha1.InstanceStatus
	fields, ok := obj.Object["status"].(map[string]any)
	if !ok {
		return status, nil
	}
	return StatusOf(fields)
}

// StatusOf reads what BuildStatus has built.
func StatusOf(fields map[string]any) (status sandbarv1alpha1.InstanceStatus, err error) {
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &status); err != nil {
		return status, fmt.Errorf("decoding the status: %w", err)
	}
	return status, nil
}

// creatorOf is the user whom the object names as its creator, which an admission policy has checked.
func creatorOf(s *scope.Scope) *sandbarv1alpha1.InstanceCreator {
	if name := s.Object().GetAnnotations()[sandbarv1alpha1.AnnotationCreatedBy]; name != "" {
		return &sandbarv1alpha1.InstanceCreator{Username: name}
	}
	return nil
}

// activity tells when the instance was last used. A time that moved less than the interval is
// left as it is, however many replicas of the data plane write.
func activity(old *sandbarv1alpha1.InstanceActivity, s *scope.Scope, last inuse.Record) *sandbarv1alpha1.InstanceActivity {
	used := metav1.NewTime(last.Used.Truncate(time.Second))
	known := old != nil && old.LastActiveTime != nil
	if last.Used.IsZero() || (known && used.Sub(old.LastActiveTime.Time).Abs() < s.ActivityInterval()) {
		return old
	}
	return &sandbarv1alpha1.InstanceActivity{LastActiveTime: &used}
}

// DataPlaneOf says where the verbs of an instance are served, whose contract and whose components these are; nil when there are
// none or no address is set.
func DataPlaneOf(s *scope.Scope, dp *sandbarv1alpha1.DataPlane, components []string) *sandbarv1alpha1.InstanceDataPlane {
	verbs := contract.VerbsOf(dp, components)
	if len(verbs) == 0 || s.Infrastructure() == nil || s.Infrastructure().DataPlane.URL == "" {
		return nil
	}
	path := []string{
		"dataplane", "clusters", s.Placement().Owner.Cluster, "namespaces", s.Object().GetNamespace(), s.Kind().Resource, s.Object().GetName(),
	}
	for i, segment := range path {
		path[i] = url.PathEscape(segment)
	}
	return &sandbarv1alpha1.InstanceDataPlane{
		URL:   strings.TrimSuffix(s.Infrastructure().DataPlane.URL, "/") + "/" + strings.Join(path, "/"),
		Verbs: verbs,
	}
}

func (v Verdict) condition(name string) metav1.Condition {
	status := metav1.ConditionFalse
	if v.OK {
		status = metav1.ConditionTrue
	}
	return metav1.Condition{Type: name, Status: status, Reason: v.Reason, Message: Shortened(toTenant(OneLine(v.message)), MaxMessage)}
}

// conditions keeps the time of a condition whose status did not change.
func conditions(old []metav1.Condition, generation int64, now time.Time, wanted []metav1.Condition) []metav1.Condition {
	var kept []metav1.Condition
	for _, condition := range wanted {
		if before := meta.FindStatusCondition(old, condition.Type); before != nil {
			kept = append(kept, *before)
		}
		condition.ObservedGeneration = generation
		condition.LastTransitionTime = metav1.NewTime(now)
		meta.SetStatusCondition(&kept, condition)
	}
	return kept
}

// Shortened bounds a text, in bytes.
func Shortened(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most-len("…")], "") + "…"
}

// Turn is what a reconcile makes of a change of the operator.
type Turn struct {
	// Asked is true once it was asked for.
	Asked bool
	// Waits is true if there is a change, and it is not this instance's turn yet.
	Waits bool
	// Updating is since when the instance takes a change; zero if it does not.
	Updating time.Time
	// Refused is why the instance cannot take the change that it has its turn for: its pod is refused. It
	// runs on with what it had; for the rollout it has failed.
	Refused *RefusalError
}

// updates reports whether the instance runs, or is about to run, with a change that has not settled.
func (t Turn) updates() bool { return !t.Updating.IsZero() && t.Refused == nil }

// Plan is what the lifecycle makes of an instance now, and the look from which that follows.
type Plan struct {
	lifecycle.Decision

	// Decided is true once the decision is made; see intent.
	Decided bool
	// WasResting reports whether the instance rested before the decision.
	WasResting bool
	// Used is what the instance's Lease says of its use; zero until that has been read.
	Used inuse.Record
	// Lease is that Lease as the API server had it at the moment looked; nil without a second look.
	Lease  *coordinationv1.Lease
	Looked time.Time
}

// ReplaceCause puts a cause in the place of the one that counts.
func (o *Observation) ReplaceCause(c *Cause) {
	if o.Cause() == o.Finding {
		o.Finding = c
	} else {
		o.Pods.Cause = c
	}
}
