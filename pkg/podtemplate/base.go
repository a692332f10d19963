// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package podtemplate

import (
	"cmp"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// Base is the pod template that instances begin with: one that a Template offers, or a tenant's
// SandboxTemplate.
type Base struct {
	Template             corev1.PodTemplateSpec
	VolumeClaimTemplates []sandbarv1alpha1.VolumeClaimTemplate

	// PlacementClass names the operator's class of places; empty for none.
	PlacementClass string

	// Runtime is the type of a sandbarv1alpha1.SandboxRuntime; empty for None.
	Runtime string

	// Operators is the part of it that a Template of the operator's has said; empty for a template of a
	// tenant's own. What it says of nodes, priorities and volumes holds, and a tenant could not say it.
	Operators corev1.PodTemplateSpec
}

// NewBase reads the pod template that a Template offers, strictly.
func NewBase(offer *sandbarv1alpha1.PodTemplateBase) (*Base, error) {
	base := &Base{VolumeClaimTemplates: offer.VolumeClaimTemplates}
	fields := map[string]any{}
	if err := json.Unmarshal(offer.PodTemplate.Raw, &fields); err != nil {
		return nil, refuse("podTemplate: %v", err)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(fields, &base.Template, true); err != nil {
		return nil, refuse("podTemplate: %v", err)
	}
	spec := &base.Template.Spec
	switch {
	case spec.ServiceAccountName != "" || spec.DeprecatedServiceAccount != "" || isTrue(spec.AutomountServiceAccountToken):
		return nil, refuse("podTemplate.spec: a sandbox has no identity on the runtime cluster; remove serviceAccountName and automountServiceAccountToken")
	case len(spec.Containers) == 0:
		return nil, refuse("podTemplate.spec.containers: must have at least one container")
	}
	base.Operators = *base.Template.DeepCopy()
	return base, nil
}

// Patched is the base with a strategic merge patch of its pod template. The error is a *RefusedError if the patch does
// not apply; what is not a tenant's to say in it is found when a pod is built.
func (b *Base) Patched(patch *runtime.RawExtension) (*Base, error) {
	pod := &Pod{Template: *b.Template.DeepCopy()}
	if err := pod.patch(patch); err != nil {
		return nil, err
	}
	patched := *b
	patched.Template = pod.Template
	return &patched, nil
}

// OwnBase makes the base of a tenant's SandboxTemplate; base is that of its TemplateRef, nil when it has
// none. What is not a tenant's to say is found when a pod is built of it.
func OwnBase(spec *sandbarv1alpha1.SandboxTemplateSpec, base *Base) (*Base, error) {
	source := &sandbarv1alpha1.PodTemplateSource{
		PodTemplate: spec.Template, TemplateRef: spec.TemplateRef, Patch: spec.Patch, VolumeClaimTemplates: spec.VolumeClaimTemplates,
	}
	pod, err := begin(source, base)
	if err != nil {
		return nil, err
	}
	own := &Base{Template: pod.Template, VolumeClaimTemplates: pod.VolumeClaimTemplates}
	own.PlacementClass, own.Runtime = spec.PlacementClass, spec.RuntimeType()
	if base != nil {
		own.Runtime = cmp.Or(spec.RuntimeType(), base.Runtime)
		own.Operators, own.PlacementClass = base.Operators, cmp.Or(spec.PlacementClass, base.PlacementClass)
	}
	return own, nil
}
