// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package place

import (
	"errors"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/pkg/podtemplate"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
)

// triedAgain is how soon a pod is built again that the operator's settings make impossible.
const triedAgain = 10 * time.Second

// runnerImage is the key of the image with the runner, among InfrastructureProvider.spec.images.
const runnerImage = "runner"

// PodFields are the pod as the graph takes it. A pod that runs is not replaced for bounds that
// came after it: they hold from its next start on.
//
// A pod that was resized keeps its way of being updated for as long as it is the same: its StatefulSet would replace it.
func PodFields(pod *podtemplate.Pod, former map[string]any, runs bool) (map[string]any, error) {
	plain := maps.Clone(former)
	delete(plain, podtemplate.FieldUpdateStrategy)
	if runs {
		if same, err := pod.Completes(plain); err != nil || same {
			return former, err
		}
	}
	fields, err := pod.Fields()
	if err == nil && former != nil && equality.Semantic.DeepEqual(fields, plain) {
		return former, nil
	}
	return fields, err
}

// BuildPod makes the pod of what the tenant wrote; base is that of the source's reference, nil if it has
// none.
func BuildPod(s *scope.Scope, source *sandbarv1alpha1.PodTemplateSource, base *podtemplate.Base, former map[string]any) (*podtemplate.Pod, error) {
	kept, err := podtemplate.FormerVolumes(former)
	if err != nil {
		return nil, SpecRefused(s, err)
	}
	bounds, err := BoundsOf(s)
	if err != nil {
		return nil, SpecRefused(s, err)
	}
	pod, err := podtemplate.Build(source, base, kept, podtemplate.Rules{
		Labels:             map[string]string{placement.LabelInstanceUID: string(s.Placement().UID)},
		RuntimeClassName:   s.Infrastructure().Isolation.RuntimeClassName,
		PlacementClasses:   s.Infrastructure().PlacementClasses,
		PodSecurity:        s.PodSecurity(),
		Bounds:             podBounds(bounds),
		RunnerImage:        s.Infrastructure().Images[runnerImage],
		Bound:              Bound(s),
		LabelPrefixes:      s.Infrastructure().InstanceMetadata.LabelPrefixes,
		AnnotationPrefixes: s.Infrastructure().InstanceMetadata.AnnotationPrefixes,
	})
	var unknown *podtemplate.UnknownClassError
	if errors.As(err, &unknown) {
		// The operator may have it, or have it again, at any moment.
		err = &outcome.RefusalError{Recheck: triedAgain, Reason: sandbarv1alpha1.PlacementClassUnknown, Message: s.Pod().ClassField() + ": " + unknown.Error()}
	}
	return pod, SpecRefused(s, err)
}

// SpecRefused makes of a refusal of package podtemplate one of the tenant's spec, and leaves other errors as
// they are.
func SpecRefused(s *scope.Scope, err error) error {
	var wrong *podtemplate.RefusedError
	if errors.As(err, &wrong) {
		return &outcome.RefusalError{Reason: outcome.ReasonSpecRefused, Message: "correct " + s.Pod().Field() + ": " + wrong.Error()}
	}
	return err
}
