// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package place

import (
	"errors"
	"fmt"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/pkg/podtemplate"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
)

// PodFields are the pod as the graph takes it. A pod that runs is not replaced for bounds that
// came after it: they hold from its next start on.
func PodFields(pod *podtemplate.Pod, former map[string]any, runs bool) (map[string]any, error) {
	if runs {
		if same, err := pod.Completes(former); err != nil || same {
			return former, err
		}
	}
	return pod.Fields()
}

// BuildPod makes the pod of what the tenant wrote.
func BuildPod(s *scope.Scope, field, former map[string]any) (*podtemplate.Pod, error) {
	pod, err := func() (*podtemplate.Pod, error) {
		source, err := podtemplate.NewSource(field)
		if err != nil {
			return nil, err
		}
		base, err := baseOf(s, source)
		if err != nil {
			return nil, err
		}
		kept, err := podtemplate.FormerVolumes(former)
		if err != nil {
			return nil, err
		}
		bounds, err := BoundsOf(s)
		if err != nil {
			return nil, err
		}
		return podtemplate.Build(source, base, kept, podtemplate.Rules{
			Labels:             map[string]string{placement.LabelInstanceUID: string(s.Placement.UID)},
			RuntimeClassName:   s.Infrastructure.Isolation.RuntimeClassName,
			PodSecurity:        s.PodSecurity(),
			Bounds:             podBounds(bounds),
			LabelPrefixes:      s.Infrastructure.InstanceMetadata.LabelPrefixes,
			AnnotationPrefixes: s.Infrastructure.InstanceMetadata.AnnotationPrefixes,
		})
	}()
	var wrong *podtemplate.RefusedError
	if errors.As(err, &wrong) {
		return nil, &outcome.RefusalError{Reason: outcome.ReasonSpecRefused, Message: "correct spec." + s.Pod.Fields.From + ": " + wrong.Error()}
	}
	return pod, err
}

// baseOf is the pod template that the source refers to, nil if it refers to none.
func baseOf(s *scope.Scope, source *sandbarv1alpha1.PodTemplateSource) (*podtemplate.Base, error) {
	if source.TemplateRef == nil {
		return nil, nil
	}
	name := source.TemplateRef.Name
	offer, ok := s.Pod.Offers[name]
	field := "spec." + s.Pod.Fields.From + ".templateRef"
	switch {
	case !ok:
		return nil, &outcome.RefusalError{Reason: outcome.ReasonTemplateRef, Message: fmt.Sprintf(
			"%s: no Template %q of the provider offers a pod template; name another, or write podTemplate", field, name)}
	case !offer.Usable:
		return nil, &outcome.RefusalError{Reason: outcome.ReasonTemplateRef, Message: fmt.Sprintf(
			"%s: Template %q is not Ready, so nothing can be made of it; this goes on by itself when the operator has mended it", field, name)}
	}
	base, err := podtemplate.NewBase(&offer.Base)
	if err != nil {
		return nil, &outcome.RefusalError{Reason: outcome.ReasonTemplateRef, Message: fmt.Sprintf(
			"%s: the operator has to correct spec.base of Template %q: %v", field, name, err)}
	}
	return base, nil
}
