// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/pkg/podtemplate"
)

// reasonTemplateRef is a reason of Composed: spec.….templateRef leads to nothing that can be used.
const reasonTemplateRef = "TemplateNotUsable"

// triedAgain is how often a pod is tried that the API server refuses: neither a RuntimeClass
// that comes nor another quota tells an instance of it.
const triedAgain = 10 * time.Second

// podWords are what the operator says of a kind whose tenants write a pod template.
type podWords struct {
	// Fields say where tenants write it and where the graph takes it from.
	Fields sandbarv1alpha1.PodTemplateFields
	// Offers are the Templates that offer a pod template, by name.
	Offers map[string]podOffer
}

// podOffer is a pod template that a Template offers.
type podOffer struct {
	Base sandbarv1alpha1.PodTemplateBase
	// Usable tells whether tenants may create instances of that Template now.
	Usable bool
}

// podOffers gathers what Templates offer. A change of one is a change of the settings of every
// kind with a pod template, so that all instances are looked at again.
func podOffers(list []sandbarv1alpha1.Template) map[string]podOffer {
	offers := map[string]podOffer{}
	for i := range list {
		t := &list[i]
		if t.Spec.Base == nil {
			continue
		}
		_, exported := kindOf(t)
		usable := exported && t.DeletionTimestamp.IsZero() && meta.IsStatusConditionTrue(t.Status.Conditions, sandbarv1alpha1.TemplateReady)
		offers[t.Name] = podOffer{Base: *t.Spec.Base.DeepCopy(), Usable: usable}
	}
	return offers
}

// composePod puts the pod into the desired kro instance, checked and tried, in the place of the
// tenant's words. After a refusal it puts in the pod that there is; complete is false when there
// is none.
func (r *reconciler) composePod(ctx context.Context, s *scope, desired *unstructured.Unstructured) (complete bool, err error) {
	spec, fields := desired.Object["spec"].(map[string]any), s.pod.Fields
	source, _ := spec[fields.From].(map[string]any)
	delete(spec, fields.From)
	current := s.newObject()
	err = r.runtime.client.Get(ctx, client.ObjectKeyFromObject(desired), current)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading the instance: %w", err)
	}
	former, exists, _ := unstructured.NestedMap(current.Object, "spec", fields.To)
	pod, err := buildPod(s, source, former)
	if err == nil {
		if spec[fields.To], err = pod.Fields(); err == nil {
			// What the pod is now has been tried.
			if !exists || !equality.Semantic.DeepEqual(spec[fields.To], any(former)) {
				err = r.tryPod(ctx, s, pod, exists && !suspended(current))
			}
		}
	}
	var refused *refusal
	if errors.As(err, &refused) && exists {
		spec[fields.To] = former
		return true, err
	}
	return err == nil, err
}

// buildPod makes the pod of what the tenant wrote.
func buildPod(s *scope, field, former map[string]any) (*podtemplate.Pod, error) {
	pod, err := func() (*podtemplate.Pod, error) {
		source, err := podtemplate.NewSource(field)
		if err != nil {
			return nil, err
		}
		base, err := s.baseOf(source)
		if err != nil {
			return nil, err
		}
		kept, err := podtemplate.FormerVolumes(former)
		if err != nil {
			return nil, err
		}
		return podtemplate.Build(source, base, kept, podtemplate.Rules{
			Labels:             map[string]string{placement.LabelInstanceUID: string(s.id.UID)},
			RuntimeClassName:   s.infrastructure.Isolation.RuntimeClassName,
			LabelPrefixes:      s.infrastructure.InstanceMetadata.LabelPrefixes,
			AnnotationPrefixes: s.infrastructure.InstanceMetadata.AnnotationPrefixes,
		})
	}()
	var wrong *podtemplate.RefusedError
	if errors.As(err, &wrong) {
		return nil, &refusal{reason: reasonSpecRefused, message: "correct spec." + s.pod.Fields.From + ": " + wrong.Error()}
	}
	return pod, err
}

// baseOf is the pod template that the source refers to, nil if it refers to none.
func (s *scope) baseOf(source *sandbarv1alpha1.PodTemplateSource) (*podtemplate.Base, error) {
	if source.TemplateRef == nil {
		return nil, nil
	}
	name := source.TemplateRef.Name
	offer, ok := s.pod.Offers[name]
	field := "spec." + s.pod.Fields.From + ".templateRef"
	switch {
	case !ok:
		return nil, &refusal{reason: reasonTemplateRef, message: fmt.Sprintf(
			"%s: no Template %q of the provider offers a pod template; name another, or write podTemplate", field, name)}
	case !offer.Usable:
		return nil, &refusal{reason: reasonTemplateRef, message: fmt.Sprintf(
			"%s: Template %q is not Ready, so nothing can be made of it; this goes on by itself when the operator has mended it", field, name)}
	}
	base, err := podtemplate.NewBase(&offer.Base)
	if err != nil {
		return nil, &refusal{reason: reasonTemplateRef, message: fmt.Sprintf(
			"%s: the operator has to correct spec.base of Template %q: %v", field, name, err)}
	}
	return base, nil
}

// tryPod asks the API server what it would say of the pod: its admission knows what no schema
// says, the pod security level, runtime classes, quota and every rule of a pod's fields. Without
// it, a StatefulSet would be made whose pod never comes.
func (r *reconciler) tryPod(ctx context.Context, s *scope, pod *podtemplate.Pod, replaces bool) error {
	sample := pod.Sample(s.id.Namespace())
	if replaces {
		// The pod that is to be replaced is in the quota still.
		podtemplate.WithoutDemands(sample)
	}
	err := r.runtime.client.Create(ctx, sample, client.DryRunAll, client.FieldOwner(fieldOwner))
	switch {
	case err == nil:
		return nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return fmt.Errorf("trying the pod: %w", errTerminating)
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return r.refusedPod(ctx, s, sample, err)
	}
	return fmt.Errorf("trying the pod: %w", err)
}

func (r *reconciler) refusedPod(ctx context.Context, s *scope, sample *corev1.Pod, refused error) error {
	if class := sample.Spec.RuntimeClassName; class != nil {
		err := r.runtime.live.Get(ctx, types.NamespacedName{Name: *class}, &nodev1.RuntimeClass{})
		if apierrors.IsNotFound(err) {
			return &refusal{recheck: triedAgain, reason: reasonRuntimeClass, message: fmt.Sprintf(
				"the runtime cluster has no RuntimeClass %q; the operator has to create it or to set another in spec.isolation.runtimeClassName of the InfrastructureProvider", *class)}
		}
		if err != nil {
			return fmt.Errorf("looking for RuntimeClass %s: %w", *class, err)
		}
	}
	return &refusal{recheck: triedAgain, reason: reasonPodRefused, message: fmt.Sprintf(
		"the runtime cluster refuses the pod; correct spec.%s: %v", s.pod.Fields.From, refused)}
}
