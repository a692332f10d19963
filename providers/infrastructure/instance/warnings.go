// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// slack is how much older than the state that it explains an event may be: conditions and
// events know whole seconds, and of two clocks.
const slack = 2 * time.Second

// causeInEvents finds the newest reason among the events of a placement why a pod could not be
// made or started since a time; nil when there is none. pods are the names of those that exist.
func causeInEvents(events []corev1.Event, pods map[string]bool, since time.Time) *cause {
	slices.SortStableFunc(events, func(a, b corev1.Event) int { return lastSeen(b).Compare(lastSeen(a)) })
	created := map[corev1.ObjectReference]bool{}
	for i := range events {
		event := &events[i]
		if lastSeen(*event).Before(since.Add(-slack)) {
			return nil
		}
		who := corev1.ObjectReference{Kind: event.InvolvedObject.Kind, Name: event.InvolvedObject.Name}
		switch {
		case event.Reason == "SuccessfulCreate":
			created[who] = true // what failed before is overcome
		case event.Reason == "FailedCreate" && !created[who]:
			return refused(event.Message)
		case who.Kind == "PersistentVolumeClaim" || (who.Kind == "Pod" && pods[who.Name]):
			if c := started(event); c != nil {
				return c
			}
		}
	}
	return nil
}

// lastSeen is when an event happened last: the two APIs that write events use different fields.
func lastSeen(event corev1.Event) time.Time {
	times := []time.Time{event.CreationTimestamp.Time, event.LastTimestamp.Time, event.EventTime.Time}
	if event.Series != nil {
		times = append(times, event.Series.LastObservedTime.Time)
	}
	return slices.MaxFunc(times, time.Time.Compare)
}

// refused tells why the API server takes no pod. It answers the workload's controller, which
// leaves a text and nothing to decide by but its words.
func refused(message string) *cause {
	// The name of the pod that was not made is another one each time, and a status that changes
	// with it would be written again and again.
	if _, why, ok := strings.Cut(message, "is forbidden: "); ok {
		message = why
	}
	said := detail(message)
	switch {
	case exceedsQuota(message):
		return outOfQuota(message)
	case strings.Contains(message, "RuntimeClass"):
		return &cause{reason: reasonRuntimeClass, failing: true, message: "the runtime cluster has no such runtime class: " + said +
			"; the operator has to install it or correct isolation.runtimeClassName of the InfrastructureProvider"}
	case strings.Contains(message, "violates PodSecurity"):
		return &cause{reason: reasonPodRefused, failing: true, message: "the pod is less secure than the provider demands: " + said +
			"; correct its security context"}
	}
	return &cause{reason: reasonPodRefused, failing: true, message: "the runtime cluster refuses the pod: " + said + "; correct the spec"}
}

// exceedsQuota knows the words of the API server's quota plugin.
func exceedsQuota(message string) bool { return strings.Contains(message, "exceeded quota") }

func outOfQuota(message string) *cause {
	return &cause{reason: reasonQuota, capacity: true, message: "the instance's quota has no room: " + detail(message) +
		"; ask for less, or ask the operator for a larger quota. It starts as soon as there is room"}
}

// started tells what keeps a pod that exists from starting, if an event says so. Each is tried
// again by the runtime cluster and may be over in a moment.
func started(event *corev1.Event) *cause {
	said := detail(event.Message)
	switch event.Reason {
	case "FailedMount", "FailedAttachVolume", "FailedMapVolume", "ProvisioningFailed", "FailedBinding":
		return &cause{reason: reasonVolume, message: "a volume cannot be made or mounted: " + said +
			"; the operator has to see to the runtime cluster's storage if this lasts"}
	case "FailedCreatePodSandBox", "FailedPodSandBoxStatus":
		return &cause{reason: reasonNoSandbox, message: "the node cannot start the pod: " + cmp.Or(said, event.Reason) +
			"; the operator has to see to the node or its runtime class if this lasts"}
	}
	return nil
}
