// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package locate

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/sandbar-dev/sandbar/dataplane/refusal"
)

// componentPod is the Pod of the component that a route names to which all verbs lead: as long as it runs they lead to the
// same one. A Pod that is on its way out is none, and nor is one without the placement's label, with that of a component alone.
func (p *Placer) componentPod(at *Place, component string) (*corev1.Pod, *refusal.Error) {
	var pods []*corev1.Pod
	for pod := range p.Cache.podsOf(at.ID.Namespace(), component) {
		if pod.DeletionTimestamp == nil && at.ID.Check(pod) == nil {
			pods = append(pods, pod)
		}
	}
	if len(pods) > 0 {
		return slices.MinFunc(pods, comparePods), nil
	}
	if !p.Cache.hasComponent(at.ID.Namespace(), component) && IsComposed(at.Instance) {
		return nil, refusal.NoComponent(component)
	}
	return nil, refusal.NotReady(fmt.Sprintf("no pod of component %s serves this verb now: try again in a moment, and look at its conditions in status.components if this lasts", component), nil)
}

// comparePods has a Pod that serves first, and of two alike the older one: it was asked before.
func comparePods(a, b *corev1.Pod) int {
	return cmp.Or(
		cmp.Compare(serving(b), serving(a)),
		a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
		cmp.Compare(a.Name, b.Name),
	)
}

// serving is how far a Pod is: more of it is better.
func serving(pod *corev1.Pod) int {
	switch {
	case IsPodReady(pod):
		return 2
	case pod.Status.Phase == corev1.PodRunning:
		return 1
	case pod.Status.Phase == corev1.PodFailed, pod.Status.Phase == corev1.PodSucceeded:
		return -1
	}
	return 0
}

// IsPodReady reports whether a Pod's condition Ready is True.
func IsPodReady(pod *corev1.Pod) bool {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
