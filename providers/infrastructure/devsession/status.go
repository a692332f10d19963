// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package devsession

import (
	"net/url"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/contract"
	"github.com/sandbar-dev/sandbar/pkg/devsession"
	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
)

// lasting are the reasons of Resolved that waiting alone does not change.
var lasting = map[string]bool{
	sandbarv1alpha1.DevSessionWorkloadNotFound: true, sandbarv1alpha1.DevSessionContainerNotFound: true, sandbarv1alpha1.DevSessionInvalidSpec: true,
	sandbarv1alpha1.DevSessionCommandRequired: true, sandbarv1alpha1.DevSessionNotAllowed: true, sandbarv1alpha1.DevSessionNotDevelopable: true,
}

// statusFor is the status that says what was found. work is nil if the group was not found.
func statusFor(key export.Key, obj *sandbarv1alpha1.DevSession, work *instance.GroupWork, found *finding, now time.Time) *sandbarv1alpha1.DevSessionStatus {
	status := &sandbarv1alpha1.DevSessionStatus{ObservedGeneration: obj.Generation, Conditions: append([]metav1.Condition(nil), obj.Status.Conditions...)}
	if found.record != nil {
		tellObjects(status, obj, work)
		status.DataPlane = dataPlaneOf(key, work)
	} else if obj.DeletionTimestamp != nil { // until nothing is left
		status.DeploymentName, status.PVCName, status.ServiceName = obj.Status.DeploymentName, obj.Status.PVCName, obj.Status.ServiceName
	}
	resolved, ready := resolvedOf(found), readyOf(obj, work, found)
	for _, c := range []metav1.Condition{resolved, ready} {
		c.ObservedGeneration, c.LastTransitionTime = obj.Generation, metav1.NewTime(now.Truncate(time.Second))
		c.Message = outcome.Shortened(c.Message, outcome.MaxMessage)
		meta.SetStatusCondition(&status.Conditions, c)
	}
	status.Phase = phaseOf(obj, resolved, ready)
	return status
}

// tellObjects tells what the session has, and which ports lead to it.
func tellObjects(status *sandbarv1alpha1.DevSessionStatus, obj *sandbarv1alpha1.DevSession, work *instance.GroupWork) {
	status.DeploymentName, status.PVCName, status.ServiceName = devsession.ObjectName(obj.Name), devsession.ClaimName(obj.Name), devsession.ObjectName(obj.Name)
	status.ContainerName = obj.Spec.ContainerName
	made := work.Copies[obj.Spec.Workload]
	if made == nil {
		return
	}
	if status.ContainerName == "" {
		status.ContainerName = made.Deployment.Spec.Template.Spec.Containers[0].Name
	}
	ports := made.Service.Spec.Ports
	for _, port := range ports[:min(len(ports), sandbarv1alpha1.MaxDevSessionPorts)] {
		status.Ports = append(status.Ports, sandbarv1alpha1.DevSessionPort{Name: port.Name, Port: port.Port, TargetPort: port.TargetPort})
	}
}

// dataPlaneOf says where the verbs of the session are served; nil if the operator has not said.
func dataPlaneOf(key export.Key, work *instance.GroupWork) *sandbarv1alpha1.InstanceDataPlane {
	if work.DataPlaneURL == "" {
		return nil
	}
	path := []string{"dataplane", "clusters", key.Cluster, "namespaces", key.Namespace, Kind.Resource, key.Name}
	for i, segment := range path {
		path[i] = url.PathEscape(segment)
	}
	return &sandbarv1alpha1.InstanceDataPlane{
		URL: strings.TrimSuffix(work.DataPlaneURL, "/") + "/" + strings.Join(path, "/"), Verbs: contract.DevSessionVerbs(),
	}
}

func resolvedOf(found *finding) metav1.Condition {
	if found.refused != nil {
		return metav1.Condition{Type: sandbarv1alpha1.DevSessionResolvedCondition, Status: metav1.ConditionFalse, Reason: found.refused.Reason, Message: found.refused.Message}
	}
	return metav1.Condition{
		Type: sandbarv1alpha1.DevSessionResolvedCondition, Status: metav1.ConditionTrue, Reason: sandbarv1alpha1.DevSessionResolved, Message: "a session can be made of the spec",
	}
}

// readyOf says whether the session takes the requests of the workload.
func readyOf(obj *sandbarv1alpha1.DevSession, work *instance.GroupWork, found *finding) metav1.Condition {
	no := func(reason, message string) metav1.Condition {
		return metav1.Condition{Type: sandbarv1alpha1.DevSessionReadyCondition, Status: metav1.ConditionFalse, Reason: reason, Message: message}
	}
	switch {
	case obj.DeletionTimestamp != nil:
		return no(sandbarv1alpha1.DevSessionEnding, "the workload's copy takes the requests again, and then the session and its volume go")
	case found.record == nil && found.refused != nil:
		return no(sandbarv1alpha1.DevSessionNotResolved, "there is no session: "+found.refused.Message)
	case found.record == nil:
		return no(sandbarv1alpha1.DevSessionStarting, "the session is being made")
	case work.Rests:
		return no(sandbarv1alpha1.DevSessionSuspended, "the Sandbox is suspended; the workspace is kept")
	case found.pods.Ready > 0 && (found.record.Stage == devsession.Draining || found.record.Stage == devsession.Alone):
		return metav1.Condition{
			Type: sandbarv1alpha1.DevSessionReadyCondition, Status: metav1.ConditionTrue, Reason: sandbarv1alpha1.DevSessionServing,
			Message: "the session takes the requests of workload " + obj.Spec.Workload,
		}
	case found.pods.Ready > 0:
		return no(sandbarv1alpha1.DevSessionSwitching, "requests are on their way from the copy to the session")
	case found.copying != nil:
		return no(found.copying.reason, found.copying.message)
	case found.pods.Cause != nil:
		return no(found.pods.Cause.Reason, found.pods.Cause.Message)
	}
	return no(sandbarv1alpha1.DevSessionStarting, "the pod of the session is not ready yet")
}

func phaseOf(obj *sandbarv1alpha1.DevSession, resolved, ready metav1.Condition) sandbarv1alpha1.DevSessionPhase {
	switch {
	case obj.DeletionTimestamp != nil:
		return sandbarv1alpha1.DevSessionDeleting
	case ready.Status == metav1.ConditionTrue:
		return sandbarv1alpha1.DevSessionReady
	case resolved.Status == metav1.ConditionFalse && lasting[resolved.Reason],
		ready.Reason == sandbarv1alpha1.DevSessionVolumeTooSmall, ready.Reason == sandbarv1alpha1.DevSessionCopyFailed:
		return sandbarv1alpha1.DevSessionFailed
	}
	return sandbarv1alpha1.DevSessionPending
}

// conditionOf is a condition of a status; a zero one if there is none.
func conditionOf(status *sandbarv1alpha1.DevSessionStatus, name string) metav1.Condition {
	if c := meta.FindStatusCondition(status.Conditions, name); c != nil {
		return *c
	}
	return metav1.Condition{}
}
