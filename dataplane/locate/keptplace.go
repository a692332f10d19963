// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package locate

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/dataplane/refusal"
	"github.com/sandbar-dev/sandbar/pkg/keptlog"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// KeptContainer finds the container that an endpoint leads to while the instance runs; nil for none.
func (p *Placer) KeptContainer(kept *keptlog.Log, at *Place, r Route, e sandbarv1alpha1.Endpoint, named string) (*keptlog.Container, *refusal.Error) {
	if e.ServiceRef != "" {
		if named != "" {
			return nil, refusal.Malformed("container must be left out: the Template says which it is")
		}
		return p.keptBehind(kept, at, e)
	}
	var names []string
	for i := range kept.Containers {
		c := &kept.Containers[i]
		if !isBehind(c, r, e) || e.Container != "" && c.Name != e.Container {
			continue
		}
		if named == "" || named == c.Name {
			return c, nil
		}
		names = append(names, c.Name)
	}
	if len(names) > 0 {
		return nil, refusal.Malformed("container must be one of " + strings.Join(names, ", "))
	}
	return nil, nil
}

// isBehind reports whether an endpoint with a podRef or podsOf led to the pod of a container.
func isBehind(c *keptlog.Container, r Route, e sandbarv1alpha1.Endpoint) bool {
	if e.PodsOf != "" {
		return c.Labels[placement.LabelComponent] == r.Component
	}
	return slices.Contains(c.Refs, e.PodRef)
}

// keptBehind finds the container behind a Service: of the pods that it selects the first that has the
// endpoint's port.
func (p *Placer) keptBehind(kept *keptlog.Log, at *Place, e sandbarv1alpha1.Endpoint) (*keptlog.Container, *refusal.Error) {
	service, refused := follow[corev1.Service](at, e.ServiceRef, p.Cache.Services.GetStore().GetByKey)
	if refused != nil && refused.Cause == refusal.CauseNotReady {
		return nil, nil
	}
	if refused != nil {
		return nil, refused
	}
	selects := labels.SelectorFromValidatedSet(service.Spec.Selector)
	var first *keptlog.Container
	for i := range kept.Containers {
		c := &kept.Containers[i]
		if selects.Empty() || !selects.Matches(labels.Set(c.Labels)) {
			continue
		}
		if slices.Contains(c.Ports, e.Port) {
			return c, nil
		}
		if first == nil {
			first = c
		}
	}
	return first, nil
}
