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
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/pkg/podtemplate"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/place"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/podbase"
)

// triesID is that of the namespace in which pods are tried. Its name is that of a placement, where the
// controllers may try pods; without the labels it is none.
var triesID = placement.ID{Origin: "sandbar-tries", UID: "sandboxtemplates"}

// verdict is what there is to say of a SandboxTemplate.
type verdict struct {
	reason, message string
	podHash         string
}

// valid reports whether Sandboxes can be made.
func (v verdict) valid() bool { return v.reason == sandbarv1alpha1.TemplateValidReason }

// check finds out whether a Sandbox of a SandboxTemplate would have its pod.
func (r *reconciler) check(ctx context.Context, template *sandbarv1alpha1.SandboxTemplate, named podbase.Named) (verdict, error) {
	says, err := readSettings(ctx, r.provider, r.runtime)
	if err != nil {
		return verdict{}, err
	}
	if says.infrastructure == nil {
		return verdict{reason: sandbarv1alpha1.TemplateNotChecked, message: "the operator has not configured the provider yet; this goes on by itself"}, nil
	}
	base, _, err := says.offers.Own(ctx, template, named)
	var unusable *podbase.UnusableError
	if errors.As(err, &unusable) {
		return verdict{reason: sandbarv1alpha1.TemplateNotUsable, message: unusable.Message}, nil
	}
	if err != nil {
		return verdict{}, err
	}
	s := sample(says.infrastructure, template)
	pod, err := place.BuildPod(s, &sandbarv1alpha1.PodTemplateSource{TemplateRef: &sandbarv1alpha1.PodTemplateRef{Name: template.Name}}, base, nil)
	var refused *outcome.RefusalError
	if errors.As(err, &refused) {
		return verdict{reason: sandbarv1alpha1.TemplateSpecRefused, message: refused.Message}, nil
	}
	if err != nil {
		return verdict{}, err
	}
	why, err := r.try(ctx, s, pod)
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
	object.SetName(triesID.Origin)
	return &scope.Scope{
		Kind:      scope.Kind{Template: triesID.Origin},
		Settings:  scope.Settings{Infrastructure: operators, Pod: &scope.PodWords{Fields: sandbarv1alpha1.PodTemplateFields{From: field}}},
		Placement: placement.Placed{ID: triesID}, Object: object,
	}
}

// try asks the API server what it would say of the pod, and returns why it refuses it; empty if it does
// not.
func (r *reconciler) try(ctx context.Context, s *scope.Scope, pod *podtemplate.Pod) (string, error) {
	if err := r.ensureTries(ctx, s.PodSecurity()); err != nil {
		return "", err
	}
	err := r.runtime.Create(ctx, pod.Sample(triesID.Namespace()), client.DryRunAll, client.FieldOwner(fieldOwner))
	switch {
	case err == nil:
		return "", nil
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return outcome.Shortened(outcome.OneLine(outcome.WhyRefused(err)), outcome.MaxMessage), nil
	case apierrors.IsNotFound(err): // somebody has deleted the namespace
		r.mu.Lock()
		r.tried = tries{}
		r.mu.Unlock()
	}
	return "", fmt.Errorf("trying the pod: %w", err)
}

// tries is what is known of the namespace in which pods are tried: its pod security level, and when that
// was last written.
type tries struct {
	level string
	at    time.Time
}

// triesKept is for how long the namespace is taken to be as it was written: nobody watches it.
const triesKept = 10 * time.Minute

// ensureTries makes the namespace in which pods are tried, with the pod security level of placements.
func (r *reconciler) ensureTries(ctx context.Context, level string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tried.level == level && time.Since(r.tried.at) < triesKept {
		return nil
	}
	labels := map[string]string{placement.LabelManagedBy: placement.ManagedBy}
	for _, mode := range []string{"enforce", "warn", "audit"} {
		labels["pod-security.kubernetes.io/"+mode] = level
	}
	config, err := place.ApplyConfiguration(&corev1.Namespace{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: triesID.Namespace(), Labels: labels},
	})
	if err == nil {
		err = r.runtime.Apply(ctx, client.ApplyConfigurationFromUnstructured(config), client.FieldOwner(fieldOwner), client.ForceOwnership)
	}
	if err != nil {
		return fmt.Errorf("making the namespace in which pods are tried: %w", err)
	}
	r.tried = tries{level, time.Now()}
	return nil
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
