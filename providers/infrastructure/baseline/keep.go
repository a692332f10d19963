// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package baseline

import (
	"reflect"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// item is what is kept of a workload, of a Service or of a Namespace. Environment variables, volumes and
// everything else that may be secret are not.
type item struct {
	metav1.ObjectMeta
	replicas   int32
	containers []sandbarv1alpha1.BaselineContainer
	// template is the Deployment that has the pod template of a Rollout (spec.workloadRef); empty if it has its own.
	template string
	// ports are those of a Service.
	ports []sandbarv1alpha1.BaselinePort
}

// same reports whether two items differ in nothing that a status could show.
func (i *item) same(other *item) bool {
	a, b := *i, *other
	a.ResourceVersion, b.ResourceVersion = "", ""
	return reflect.DeepEqual(a, b)
}

// keep makes of an object what is kept of it.
func keep(u *unstructured.Unstructured) *item {
	kept := &item{ObjectMeta: metav1.ObjectMeta{
		Namespace: u.GetNamespace(), Name: u.GetName(), UID: u.GetUID(), Labels: u.GetLabels(), ResourceVersion: u.GetResourceVersion(),
	}}
	spec, _, _ := unstructured.NestedMap(u.Object, "spec")
	if u.GetKind() == "Service" {
		kept.ports = portsOf(spec)
	} else {
		kept.readWorkload(spec)
	}
	return kept
}

// podOwner is what matters of the spec of a Deployment, a StatefulSet and a Rollout.
type podOwner struct {
	Replicas *int32 `json:"replicas"`
	Template struct {
		Spec struct {
			Containers []container `json:"containers"`
		} `json:"spec"`
	} `json:"template"`
	WorkloadRef struct {
		Kind string `json:"kind"`
		Name string `json:"name"`
	} `json:"workloadRef"`
}

type container struct {
	Name  string `json:"name"`
	Image string `json:"image"`
	Ports []struct {
		Name          string `json:"name"`
		ContainerPort int32  `json:"containerPort"`
		Protocol      string `json:"protocol"`
	} `json:"ports"`
}

// readWorkload takes over what the spec of a workload says. What it cannot read is left out: the CRD of a Rollout is not
// ours.
func (i *item) readWorkload(spec map[string]any) {
	var owner podOwner
	if runtime.DefaultUnstructuredConverter.FromUnstructured(spec, &owner) != nil {
		return
	}
	i.replicas = 1 // the default of all three kinds
	if owner.Replicas != nil {
		i.replicas = *owner.Replicas
	}
	if owner.WorkloadRef.Kind == string(sandbarv1alpha1.BaselineDeployment) {
		i.template = owner.WorkloadRef.Name
	}
	for _, c := range owner.Template.Spec.Containers {
		kept := sandbarv1alpha1.BaselineContainer{Name: c.Name, Image: cut(c.Image, sandbarv1alpha1.MaxBaselineImage)}
		for _, p := range c.Ports {
			kept.Ports = append(kept.Ports, sandbarv1alpha1.BaselinePort{Name: p.Name, Port: p.ContainerPort, Protocol: p.Protocol})
		}
		i.containers = append(i.containers, kept)
	}
}

func portsOf(spec map[string]any) (ports []sandbarv1alpha1.BaselinePort) {
	var service struct {
		Ports []sandbarv1alpha1.BaselinePort `json:"ports"`
	}
	if runtime.DefaultUnstructuredConverter.FromUnstructured(spec, &service) != nil {
		return nil
	}
	for _, p := range service.Ports {
		ports = append(ports, sandbarv1alpha1.BaselinePort{Name: p.Name, Port: p.Port, Protocol: p.Protocol})
	}
	return ports
}

// cut returns at most some bytes of a text, and no half of a character.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}
