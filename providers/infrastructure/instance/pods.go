// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbar-dev/sandbar/pkg/placement"
)

const (
	// quietTime is how long an instance may take to become ready before the events of its
	// placement are read for the reason; most are ready by then.
	quietTime = 2 * time.Second
	// lookMost bounds the time between two looks at the events of an instance that stays
	// without a cause.
	lookMost = 30 * time.Second
	// maxEvents bounds how many events of a placement are read at once.
	maxEvents = 500
)

// observe adds what the runtime cluster says of the instance's pods to the outcome, and tells
// after which time to look again although nothing changes; zero means never.
func (r *reconciler) observe(ctx context.Context, s *scope, o *outcome) (time.Duration, error) {
	now := r.now()
	if !placedVerdict(*o).ok {
		return 0, nil
	}
	var pods corev1.PodList
	if err := r.runtime.client.List(ctx, &pods, client.InNamespace(s.id.Namespace())); err != nil {
		return 0, fmt.Errorf("listing the pods: %w", err)
	}
	o.pods = summarize(pods.Items, now)
	if _, suspended := s.intent(); suspended {
		return 0, r.observeVolumes(ctx, s, o)
	}
	var refused *refusal
	if errors.As(o.composing, &refused) {
		return sooner(refused.recheck, o.pods.recheck), nil
	}
	if o.instance == nil || o.pods.cause != nil {
		return o.pods.recheck, nil
	}
	again, err := r.observeEvents(ctx, s, o, now)
	return sooner(again, o.pods.recheck), err
}

// observeVolumes finds out what a suspension keeps, until it is complete.
func (r *reconciler) observeVolumes(ctx context.Context, s *scope, o *outcome) error {
	old, err := readStatus(s.object)
	if err != nil {
		return err
	}
	if released(old.Phase) || keepsVolumes(old) {
		return nil
	}
	var claims corev1.PersistentVolumeClaimList
	if err := r.runtime.live.List(ctx, &claims, client.InNamespace(s.id.Namespace()), client.Limit(1)); err != nil {
		return fmt.Errorf("listing the volumes: %w", err)
	}
	o.volumes = len(claims.Items) > 0
	return nil
}

// observeEvents reads the placement's events when the instance is not ready and no pod says
// why: a pod that is refused, a volume that does not come and a sandbox that cannot be made
// show nowhere else.
func (r *reconciler) observeEvents(ctx context.Context, s *scope, o *outcome, now time.Time) (time.Duration, error) {
	if composedVerdict(placedVerdict(*o), *o).ok && o.pods.ready == o.pods.present {
		return 0, nil
	}
	since, err := unreadySince(s, now)
	if err != nil {
		return 0, err
	}
	waited := now.Sub(since)
	if waited < quietTime {
		return quietTime - waited, nil
	}
	var events corev1.EventList
	if err := r.runtime.live.List(ctx, &events, client.InNamespace(s.id.Namespace()), client.Limit(maxEvents)); err != nil {
		return 0, fmt.Errorf("listing the events: %w", err)
	}
	o.finding = causeInEvents(events.Items, o.pods.names, since)
	return min(max(waited, quietTime), lookMost), nil
}

// unreadySince is when the instance stopped being ready, or now if nothing says so yet.
func unreadySince(s *scope, now time.Time) (time.Time, error) {
	status, err := readStatus(s.object)
	if err != nil {
		return now, err
	}
	for _, condition := range status.Conditions {
		if condition.Type == "Ready" && condition.Status == metav1.ConditionFalse {
			return condition.LastTransitionTime.Time, nil
		}
	}
	return now, nil
}

// sooner is the smaller of two times to wait, of which zero means never.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// requestForPod is the request of the instance that a pod runs for. A pod carries no more than
// what its graph gives it; its namespace says whose it is.
func (r *runner) requestForPod(obj metav1.Object) (request, bool) {
	if !placement.IsNamespace(obj.GetNamespace()) {
		return request{}, false
	}
	ns := &corev1.Namespace{}
	if err := r.runtime.GetClient().Get(context.Background(), types.NamespacedName{Name: obj.GetNamespace()}, ns); err != nil {
		return request{}, false
	}
	return requestForOwner(r.kind.template)(ns)
}

// podMatters tells whether a change of a pod can change an instance's status. The kubelet
// writes much more than that: heartbeats of probes, addresses, times.
func podMatters(before, after any) bool {
	old, ok := before.(*corev1.Pod)
	pod, also := after.(*corev1.Pod)
	if !ok || !also {
		return true
	}
	return !maps.Equal(gist(old), gist(pod))
}

// gist is what of a pod an instance's status is made of.
func gist(pod *corev1.Pod) map[string]string {
	said := map[string]string{"phase": string(pod.Status.Phase), "reason": pod.Status.Reason}
	if pod.DeletionTimestamp != nil {
		said["deleting"] = "true"
	}
	for _, name := range []corev1.PodConditionType{corev1.PodReady, corev1.PodScheduled} {
		condition := podCondition(pod, name)
		said[string(name)] = string(condition.Status)
	}
	if c := unscheduled(pod); c != nil {
		said["unscheduled"] = c.reason // the scheduler's first verdict need not be its last
	}
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for _, status := range statuses {
			said["container/"+status.Name] = fmt.Sprint(status.RestartCount, status.Ready, stateOf(status.State))
		}
	}
	return said
}

// stateOf names a container's state. The two reasons that alternate while an image is not
// pulled are one.
func stateOf(state corev1.ContainerState) string {
	switch {
	case state.Waiting != nil && state.Waiting.Reason == "ImagePullBackOff":
		return "ErrImagePull"
	case state.Waiting != nil:
		return state.Waiting.Reason
	case state.Running != nil:
		return "running"
	case state.Terminated != nil:
		return fmt.Sprint("terminated ", state.Terminated.ExitCode)
	}
	return ""
}
