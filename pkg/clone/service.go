// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package clone

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// maxPorts is how many ports a tenant may give a Service.
const maxPorts = 32

// service is the Service of the component.
func (r *rendering) service() (*corev1.Service, error) {
	own := r.Component.Service
	if own == nil {
		own = &sandbarv1alpha1.SandboxGroupService{}
	}
	if own.Type != "" && own.Type != corev1.ServiceTypeClusterIP {
		return nil, refuse(InvalidSpec, "service.type: %s is not there for sandboxes, which have neither node ports nor load balancers; use ClusterIP, or leave it out", own.Type)
	}
	for _, m := range []metadata{
		{field: "service.labels", set: own.Labels, allowed: r.labelAllowed},
		{field: "service.annotations", set: own.Annotations, allowed: r.annotationAllowed, annotations: true},
	} {
		if err := m.check(); err != nil {
			return nil, err
		}
	}
	ports, err := r.servicePorts(own.Ports)
	if err != nil {
		return nil, err
	}
	return &corev1.Service{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{
			Name:   ServiceName(r.Group, r.Component.Name),
			Labels: r.labelled(own.Labels), Annotations: maps.Clone(own.Annotations),
		},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, Selector: r.selector(), Ports: ports},
	}, nil
}

// servicePorts are the tenant's, or else those that were frozen.
func (r *rendering) servicePorts(own []corev1.ServicePort) ([]corev1.ServicePort, error) {
	switch {
	case len(own) > maxPorts:
		return nil, refuse(InvalidSpec, "service.ports: %d are too many; have %d at most", len(own), maxPorts)
	case len(own) > 0:
		if err := checkPorts(own, &r.template.Spec); err != nil {
			return nil, err
		}
		return completePorts(own), nil
	case len(r.Snapshot.ServicePorts) == 0:
		return nil, refuse(NoPorts, "service.ports: the containers of %s name no ports, so that nothing is known to lead to; give at least one", r.Snapshot.Source)
	}
	return completePorts(r.Snapshot.ServicePorts), nil
}
