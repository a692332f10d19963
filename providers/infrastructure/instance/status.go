// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"fmt"
	"net/url"
	"strings"
	"time"

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

// outcome is how far a reconcile came.
type outcome struct {
	// placing and composing are the errors of those steps.
	placing, composing error
	// instance is the kro instance; nil until it exists.
	instance *unstructured.Unstructured
	// deleting says what a deletion waits for; empty when the instance is not being deleted.
	deleting string
	// pods is what the placement's pods say.
	pods podSummary
	// finding is why a pod could not be made or started, if an event tells.
	finding *cause
	// volumes tells that a suspended instance keeps volumes.
	volumes bool
	// now is when the runtime cluster was looked at.
	now time.Time
}

// cause is what keeps the instance from being ready, or nil.
func (o outcome) cause() *cause {
	if o.pods.cause != nil {
		return o.pods.cause
	}
	return o.finding
}

// buildStatus computes the whole status from the runtime's state. Of the tenant's own status
// it keeps the times: of the conditions, of the suspension and, while it is young, of the last
// use; and whether the instance was ready or suspended before.
func buildStatus(s *scope, o outcome) (map[string]any, error) {
	old, err := readStatus(s.object)
	if err != nil {
		return nil, err
	}
	generation := s.object.GetGeneration()
	v := judge(s, o, old)
	status := sandbarv1alpha1.InstanceStatus{
		ObservedGeneration: generation,
		Phase:              phase(s, o, old, v),
		DataPlane:          dataPlaneOf(s),
		Activity:           activity(old.Activity, s),
		Suspension:         suspensionOf(s, o, old),
		Conditions: conditions(old.Conditions, generation, o.now, []metav1.Condition{
			v.placed.condition(sandbarv1alpha1.InstancePlaced),
			v.composed.condition(sandbarv1alpha1.InstanceComposed),
			v.suspended.condition(sandbarv1alpha1.InstanceSuspendedCondition),
			v.ready.condition(sandbarv1alpha1.InstanceReadyCondition),
		}),
	}
	own, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&status)
	if err != nil {
		return nil, fmt.Errorf("encoding the status: %w", err)
	}
	return withGraphFields(own, s, o.instance), nil
}

// readStatus reads what earlier reconciles wrote. A tenant cannot write it, and nothing is
// decided by it but what the next status says.
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

func (v verdict) condition(name string) metav1.Condition {
	status := metav1.ConditionFalse
	if v.ok {
		status = metav1.ConditionTrue
	}
	return metav1.Condition{Type: name, Status: status, Reason: v.reason, Message: shortened(oneLine(v.message), maxMessage)}
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

// shortened bounds a text, in bytes.
func shortened(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most-len("…")], "") + "…"
}
