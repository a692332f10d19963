// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"errors"
	"fmt"
	"strings"
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
	"github.com/sandbar-dev/sandbar/pkg/podtemplate"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/lifecycle"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/place"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
)

// triedAgain is how soon a pod is tried again that the API server refuses: neither a RuntimeClass that
// comes nor another quota wakes an instance. See later for what follows.
const triedAgain = 10 * time.Second

// podOffers gathers what Templates offer. A change of one is a change of the settings of every
// kind with a pod template, so that all instances are looked at again.
func podOffers(list []sandbarv1alpha1.Template) map[string]scope.PodOffer {
	offers := map[string]scope.PodOffer{}
	for i := range list {
		t := &list[i]
		if t.Spec.Base == nil {
			continue
		}
		_, exported := kindOf(t)
		usable := exported && t.DeletionTimestamp.IsZero() && meta.IsStatusConditionTrue(t.Status.Conditions, sandbarv1alpha1.TemplateReady)
		offers[t.Name] = scope.PodOffer{Base: *t.Spec.Base.DeepCopy(), Usable: usable}
	}
	return offers
}

// composePod puts the pod into the desired kro instance, checked and tried, in the place of the
// tenant's words. After a refusal it puts in the pod that there is; complete is false when there
// is none.
//
// The turn says whether the instance takes what the operator says now, if that was asked.
func (r *reconciler) composePod(ctx context.Context, s *scope.Scope, current, desired *unstructured.Unstructured) (t outcome.Turn, complete bool, err error) {
	spec, fields := desired.Object["spec"].(map[string]any), s.Pod.Fields
	source, _ := spec[fields.From].(map[string]any)
	delete(spec, fields.From)
	var former map[string]any
	exists := false
	if current != nil {
		former, exists, _ = unstructured.NestedMap(current.Object, "spec", fields.To)
	}
	runs := exists && !lifecycle.Suspended(current)
	pod, err := place.BuildPod(s, source, former)
	keeps, t := r.keepsPod(s, current, desired, former, pod, err)
	if keeps {
		spec[fields.To] = former
		return t, true, nil
	}
	if err == nil {
		if spec[fields.To], err = place.PodFields(pod, former, runs); err == nil {
			// What the pod is now has been tried.
			if !exists || !equality.Semantic.DeepEqual(spec[fields.To], any(former)) {
				err = r.tryPod(ctx, s, pod, runs)
			}
		}
	}
	var refused *outcome.RefusalError
	if errors.As(err, &refused) && exists {
		spec[fields.To] = former
		if t.Asked {
			// The operator's change is refused, and the tenant has changed nothing; see keepsPod.
			t.Refused, err = refused, nil
		}
		return t, true, err
	}
	return t, err == nil, err
}

// tryPod asks the API server what it would say of the pod: its admission knows what no schema
// says, the pod security level, runtime classes, quota and every rule of a pod's fields. Without
// it, a StatefulSet would be made whose pod never comes.
func (r *reconciler) tryPod(ctx context.Context, s *scope.Scope, pod *podtemplate.Pod, replaces bool) error {
	sample := pod.Sample(s.Placement.Namespace())
	wanted := sample.Spec.HostUsers
	err := r.runtime.client.Create(ctx, sample, client.DryRunAll, client.FieldOwner(fieldOwner))
	switch {
	case err == nil:
		return honoured(s, wanted, sample.Spec.HostUsers)
	case replaces && apierrors.IsForbidden(err) && outcome.ExceedsQuota(err.Error()):
		// The pod that is to be replaced is in the quota still. The quota is the last that the
		// API server asks, so the rest has passed.
		return nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return fmt.Errorf("trying the pod: %w", outcome.ErrTerminating)
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return r.refusedPod(ctx, s, sample, err)
	}
	return fmt.Errorf("trying the pod: %w", err)
}

// honoured refuses a pod whose user namespace the API server would drop without a word: what the
// pod may do as root or in group 0 relies on it.
func honoured(s *scope.Scope, wanted, given *bool) error {
	if wanted == nil || *wanted || given != nil && !*given {
		return nil
	}
	return &outcome.RefusalError{Recheck: triedAgain, Reason: outcome.ReasonPodRefused, Message: "the runtime cluster knows no user namespaces; remove hostUsers from spec." + s.Pod.Fields.From}
}

func (r *reconciler) refusedPod(ctx context.Context, s *scope.Scope, sample *corev1.Pod, refused error) error {
	if outcome.IsOwnRight(whyRefused(refused)) {
		return fmt.Errorf("trying the pod: %w", refused)
	}
	if why := whyRefused(refused); apierrors.IsForbidden(refused) && outcome.ExceedsQuota(why) {
		// The same as when kro's pod is refused, which is the first to be where the quota is so new
		// that the API server has not seen it at the dry run.
		return &outcome.RefusalError{Recheck: triedAgain, Reason: outcome.ReasonQuota, Message: outcome.OutOfQuota(why).Message}
	}
	if class := sample.Spec.RuntimeClassName; class != nil {
		err := r.runtime.live.Get(ctx, types.NamespacedName{Name: *class}, &nodev1.RuntimeClass{})
		if apierrors.IsNotFound(err) {
			return &outcome.RefusalError{Recheck: triedAgain, Reason: outcome.ReasonRuntimeClass, Message: fmt.Sprintf(
				"the runtime cluster has no RuntimeClass %q; the operator has to create it or to set another in spec.isolation.runtimeClassName of the InfrastructureProvider", *class)}
		}
		if err != nil {
			return fmt.Errorf("looking for RuntimeClass %s: %w", *class, err)
		}
	}
	return &outcome.RefusalError{Recheck: triedAgain, Reason: outcome.ReasonPodRefused, Message: fmt.Sprintf(
		"the runtime cluster refuses the pod; correct spec.%s: %s", s.Pod.Fields.From, whyRefused(refused))}
}

// whyRefused is the API server's reason without the name of the object that it refused, which is the
// provider's and says nothing to a tenant.
func whyRefused(err error) string {
	for _, words := range []string{" is forbidden: ", " is invalid: "} {
		if _, why, found := strings.Cut(err.Error(), words); found {
			return why
		}
	}
	return err.Error()
}
