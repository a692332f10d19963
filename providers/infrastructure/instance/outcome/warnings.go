// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// slack is how much older than the state that it explains an event may be: conditions and
// events know whole seconds, and of two clocks.
const slack = 2 * time.Second

// CauseInEvents finds the newest reason among the events of a placement why a pod could not be
// made or started since a time; nil when there is none. pods are the names of those that exist.
func CauseInEvents(events []corev1.Event, pods map[string]bool, since time.Time) *Cause {
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
func refused(message string) *Cause {
	// The name of the pod that was not made is another one each time, and a status that changes
	// with it would be written again and again.
	if _, why, ok := strings.Cut(message, "is forbidden: "); ok {
		message = why
	}
	said := Detail(message)
	switch {
	case ExceedsQuota(message):
		return OutOfQuota(message)
	case strings.Contains(message, "RuntimeClass"):
		return &Cause{Reason: ReasonRuntimeClass, failing: true, Message: "the runtime cluster has no such runtime class: " + said +
			"; the operator has to install it or correct isolation.runtimeClassName of the InfrastructureProvider"}
	case strings.Contains(message, "violates PodSecurity"):
		return &Cause{Reason: ReasonPodRefused, failing: true, Message: "the pod is less secure than the provider demands: " + said +
			"; correct its security context"}
	}
	return &Cause{Reason: ReasonPodRefused, failing: true, Message: "the runtime cluster refuses the pod: " + said + "; correct the spec"}
}

// ExceedsQuota knows the words of the API server's quota plugin.
func ExceedsQuota(message string) bool { return strings.Contains(message, quotaWords) }

const quotaWords = "exceeded quota"

// OutOfQuota is the cause of a refusal by the quota of the placement.
func OutOfQuota(message string) *Cause {
	return &Cause{Reason: ReasonQuota, capacity: true, Message: "the instance's quota has no room: " + Detail(quotaPart(message)) +
		"; ask for less, or ask the operator for a larger quota. It starts as soon as there is room"}
}

// missingClass is how the volume controller says that a claim names a class that does not exist.
var missingClass = regexp.MustCompile(`storageclass\.storage\.k8s\.io "([^"]{1,253})" not found`)

// started tells what keeps a pod that exists from starting, if an event says so. Each is tried
// again by the runtime cluster and may be over in a moment.
func started(event *corev1.Event) *Cause {
	said := Detail(event.Message)
	if class := missingClass.FindStringSubmatch(event.Message); class != nil {
		return &Cause{Reason: reasonStorageClass, failing: true, Message: fmt.Sprintf(
			"the runtime cluster has no StorageClass %q; correct the spec, or ask the operator which there are", class[1])}
	}
	switch event.Reason {
	case "FailedMount", "FailedAttachVolume", "FailedMapVolume", "ProvisioningFailed", "FailedBinding":
		return &Cause{Reason: ReasonVolume, Message: "a volume cannot be made or mounted: " + said +
			"; the operator has to see to the runtime cluster's storage if this lasts"}
	case "FailedCreatePodSandBox", "FailedPodSandBoxStatus":
		return &Cause{Reason: reasonNoSandbox, Message: "the node cannot start the pod: " + cmp.Or(said, event.Reason) +
			"; the operator has to see to the node or its runtime class if this lasts"}
	}
	return nil
}
