// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package sandboxtemplate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/pkg/podtemplate"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/place"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/podbase"
)

// verdict is what there is to say of a SandboxTemplate.
type verdict struct {
	reason, message string
	podHash         string
}

// valid reports whether Sandboxes can be made.
func (v verdict) valid() bool { return v.reason == sandbarv1alpha1.TemplateValidReason }

// check finds out whether a Sandbox of a SandboxTemplate would have its pod.
func (r *reconciler) check(ctx context.Context, template *sandbarv1alpha1.SandboxTemplate, named podbase.Named) (verdict, error) {
	says, err := readSettings(ctx, r.provider, r.runtime, r.names)
	if err != nil {
		return verdict{}, err
	}
	if says.Infrastructure == nil {
		return verdict{reason: sandbarv1alpha1.TemplateNotChecked, message: "the operator has not configured the provider yet; this goes on by itself"}, nil
	}
	base, _, err := says.Offers.Own(ctx, template, named)
	var unusable *podbase.UnusableError
	if errors.As(err, &unusable) {
		return verdict{reason: sandbarv1alpha1.TemplateNotUsable, message: unusable.Message}, nil
	}
	if err != nil {
		return verdict{}, err
	}
	s := sample(says.Infrastructure, template)
	pod, err := place.BuildPod(s, &sandbarv1alpha1.PodTemplateSource{TemplateRef: &sandbarv1alpha1.PodTemplateRef{Name: template.Name}}, base, nil)
	var refused *outcome.RefusalError
	if errors.As(err, &refused) && refused.Reason == sandbarv1alpha1.PlacementClassUnknown {
		return verdict{reason: refused.Reason, message: refused.Message}, nil
	}
	if errors.As(err, &refused) {
		return verdict{reason: sandbarv1alpha1.TemplateSpecRefused, message: refused.Message}, nil
	}
	if err != nil {
		return verdict{}, err
	}
	why, err := r.tries.Try(ctx, s.PodSecurity(), pod)
	if err != nil {
		return verdict{}, err
	}
	if why != "" {
		return verdict{reason: sandbarv1alpha1.TemplatePodRefused, message: "the runtime cluster refuses the pod: " + why}, nil
	}
	hash, err := hashOf(pod)
	return verdict{reason: sandbarv1alpha1.TemplateValidReason, message: "a Sandbox of it would have its pod", podHash: hash}, err
}

// sample is the scope of a Sandbox that there is not. What is wrong with its pod is said of the field in
// which the SandboxTemplate says it.
func sample(operators *sandbarv1alpha1.InfrastructureProviderSpec, template *sandbarv1alpha1.SandboxTemplate) *scope.Scope {
	field := "template"
	if template.Spec.Template == nil {
		field = "patch"
	}
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetName(triesOrigin)
	settings := scope.Settings{Infrastructure: operators, Pod: &scope.PodWords{
		Fields: sandbarv1alpha1.PodTemplateFields{From: field}, WrittenClass: "spec.placementClass",
	}}
	return scope.New(scope.Kind{Template: triesOrigin}, settings, object, sandbarv1alpha1.InstanceStatus{}, placement.Placed{ID: triesID("")})
}

// hashOf is of what a graph would be given.
func hashOf(pod *podtemplate.Pod) (string, error) {
	fields, err := pod.Fields()
	if err != nil {
		return "", fmt.Errorf("writing the pod: %w", err)
	}
	raw, err := json.Marshal(fields)
	if err != nil {
		return "", fmt.Errorf("writing the pod: %w", err)
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:8]), nil
}
