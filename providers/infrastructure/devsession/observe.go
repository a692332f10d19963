// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package devsession

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	copywire "github.com/sandbar-dev/sandbar/apis/wire/copy"
	"github.com/sandbar-dev/sandbar/pkg/devsession"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
)

// finding is what a look at a session has found.
type finding struct {
	// refused is why no session can be made of the spec; nil if one can.
	refused *devsession.RefusedError
	// record is what the placement has of the session now; nil if it has none.
	record *devsession.Record
	// pods are those of the session.
	pods outcome.ComponentPods
	// copying is what is wrong with the copy of the image's files; nil if nothing is known to be.
	copying *copyFailure
	// recheck is when time alone changes what the pods say; zero for never.
	recheck time.Duration
}

// copyFailure is why the files of the image are not in the workspace.
type copyFailure struct{ reason, message string }

// observe looks at what a step of the switch depends on, and notes what the status tells.
func (r *reconciler) observe(ctx context.Context, component string, record *devsession.Record, work *instance.GroupWork, found *finding) (devsession.Seen, error) {
	namespace := work.ObjectMeta("").Namespace
	all, err := r.runtime.pods(ctx, namespace)
	if err != nil {
		return devsession.Seen{}, err
	}
	own := ofSession(all, record)
	summary := outcome.Summarize(slices.Clone(all), r.now())
	found.pods, found.copying = summarized(own, component, r.now()), copyFailureOf(own)
	found.recheck = outcome.Summarize(own, r.now()).Recheck
	seen := devsession.Seen{SessionReady: found.pods.Ready > 0, Rests: work.Rests}
	made := work.Copies[component]
	seen.CopyReady = made == nil || made.Deployment.Spec.Replicas != nil && summary.Of[component].Ready >= *made.Deployment.Spec.Replicas
	if made == nil || record.Stage != devsession.Serving && record.Stage != devsession.Leaving {
		return seen, nil
	}
	pods, ready, err := r.runtime.endpoints(ctx, namespace, made.Service.Name)
	if err != nil {
		return seen, err
	}
	names := map[string]bool{}
	for i := range own {
		names[own[i].Name] = true
	}
	isOwn := func(pod string) bool { return names[pod] }
	seen.ToCopy = !slices.ContainsFunc(pods, isOwn)
	seen.ToSession = ready > 0 && !slices.ContainsFunc(pods, func(pod string) bool { return !isOwn(pod) })
	return seen, nil
}

// ofSession are the pods of a session.
func ofSession(all []corev1.Pod, record *devsession.Record) (own []corev1.Pod) {
	for i := range all {
		if all[i].Labels[placement.LabelSessionUID] == string(record.UID) {
			own = append(own, all[i])
		}
	}
	return own
}

// summarized is what the pods of a session say together.
func summarized(own []corev1.Pod, component string, now time.Time) outcome.ComponentPods {
	return outcome.Summarize(slices.Clone(own), now).Develops[component]
}

// copyFailureOf reads why the newest pod of a session could not copy the files of the image: the runner says it in its termination
// message.
func copyFailureOf(own []corev1.Pod) *copyFailure {
	var newest *corev1.Pod
	for i := range own {
		if pod := &own[i]; pod.DeletionTimestamp == nil && (newest == nil || newest.CreationTimestamp.Before(&pod.CreationTimestamp)) {
			newest = pod
		}
	}
	if newest == nil {
		return nil
	}
	for i := range newest.Status.InitContainerStatuses {
		status := &newest.Status.InitContainerStatuses[i]
		if status.Name != devsession.CopyName || status.Ready {
			continue
		}
		for _, state := range []*corev1.ContainerStateTerminated{status.State.Terminated, status.LastTerminationState.Terminated} {
			if state != nil && state.ExitCode != 0 {
				return failureIn(state.Message)
			}
		}
	}
	return nil
}

// failureIn reads a termination message of copy-up: JSON with reason and message. The image is the tenant's, and so is what it
// says: of the reasons one counts.
func failureIn(message string) *copyFailure {
	said, err := copywire.Parse([]byte(message))
	failure := &copyFailure{reason: sandbarv1alpha1.DevSessionCopyFailed, message: "the files of the image could not be copied into the workspace"}
	switch {
	case err != nil, said.Message == "":
	case said.Reason == copywire.Stopped: // the next try begins from the start
		return nil
	case said.Reason == copywire.VolumeTooSmall:
		failure.reason, failure.message = sandbarv1alpha1.DevSessionVolumeTooSmall, outcome.Detail(said.Message)
	default:
		failure.message += ": " + outcome.Detail(said.Message)
	}
	return failure
}
