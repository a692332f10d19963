// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/podtemplate"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/lifecycle"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/place"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/podbase"
)

// triedAgain is how soon a pod is tried again that the API server refuses: neither a RuntimeClass that
// comes nor another quota wakes an instance. See later for what follows.
const triedAgain = 10 * time.Second

// composePod puts the pod into the desired kro instance, checked and tried, in the place of the
// tenant's words. After a refusal it puts in the pod that there is; complete is false when there
// is none.
//
// The turn says whether the instance takes what the operator says now, if that was asked.
func (r *reconciler) composePod(ctx context.Context, s *scope.Scope, current, desired *unstructured.Unstructured) (t outcome.Turn, complete bool, err error) {
	spec, fields := desired.Object["spec"].(map[string]any), s.Pod().Fields
	written, _ := spec[fields.From].(map[string]any)
	delete(spec, fields.From)
	var former map[string]any
	exists := false
	if current != nil {
		former, exists, _ = unstructured.NestedMap(current.Object, "spec", fields.To)
	}
	runs := exists && !lifecycle.Suspended(current)
	notes := podNotes{words: hashOf(written), change: s.Pod().Change}
	keep := func() {
		spec[fields.To] = former
		notesOf(current).write(desired)
	}
	same := exists && !rewritten(s, current, written)
	if same {
		notes.change = notesOf(current).change
	}
	pod, of, err := r.buildPod(ctx, s, written, notes.change, former)
	if same && (remade(current, of) || templateGone(err)) {
		keep()
		return t, true, nil
	}
	keeps, t := r.keepsPod(s, current, desired, former, pod, err)
	if keeps {
		keep()
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
		keep()
		if t.Asked {
			// The operator's change is refused, and the tenant has changed nothing; see keepsPod.
			t.Refused, err = refused, nil
		}
		return t, true, err
	}
	notes.of = of
	notes.write(desired)
	return t, err == nil, err
}

// buildPod makes the pod of what the tenant wrote, with what a set changes in its template. of are the UIDs of the SandboxTemplates that it is made
// of, empty for none.
func (r *reconciler) buildPod(ctx context.Context, s *scope.Scope, written map[string]any, change scope.PodChange, former map[string]any) (pod *podtemplate.Pod, of string, err error) {
	source, err := podtemplate.NewSource(written)
	if err != nil {
		return nil, "", place.SpecRefused(s, err)
	}
	var base *podtemplate.Base
	if source.TemplateRef != nil {
		if base, of, err = s.Pod().Offers.Find(ctx, source.TemplateRef, r.sandboxTemplates(s)); err != nil {
			return nil, "", unusable(s, err)
		}
	}
	if base != nil {
		if base, err = r.patched.of(base, change); err != nil {
			return nil, "", patchRefused(err)
		}
	}
	pod, err = place.BuildPod(s, source, base, former)
	return pod, of, err
}

// unusable says that the reference of a pod leads to no template.
func unusable(s *scope.Scope, err error) error {
	var why *podbase.UnusableError
	if errors.As(err, &why) {
		return &outcome.RefusalError{Recheck: triedAgain, Reason: outcome.ReasonTemplateRef, Message: s.Pod().RefField() + ": " + why.Message}
	}
	return err
}

// patchRefused says that the patch of a set does not apply.
func patchRefused(err error) error {
	var wrong *podtemplate.RefusedError
	if errors.As(err, &wrong) {
		return &outcome.RefusalError{Reason: sandbarv1alpha1.SandboxSetPatchRefused, Message: "correct spec." + wrong.Error()} // it begins with patch:
	}
	return err
}

// sandboxTemplates reads the SandboxTemplates beside the instance.
func (r *reconciler) sandboxTemplates(s *scope.Scope) podbase.Named {
	return func(ctx context.Context, name string) (*sandbarv1alpha1.SandboxTemplate, error) {
		return r.templates.Named(ctx, request{
			Cluster: s.Placement().Owner.Cluster, NamespacedName: types.NamespacedName{Namespace: s.Object().GetNamespace(), Name: name},
		})
	}
}

// remade reports whether the SandboxTemplates that a pod was made of have gone, and others have taken their
// names.
func remade(current *unstructured.Unstructured, of string) bool {
	was := notesOf(current).of
	return was != "" && of != "" && was != of
}

// templateGone reports whether a pod cannot be built because the template that it begins with is not there, or not
// usable now, or because the operator has taken its placement class away.
func templateGone(err error) bool {
	var refused *outcome.RefusalError
	return errors.As(err, &refused) && (refused.Reason == outcome.ReasonTemplateRef || refused.Reason == sandbarv1alpha1.PlacementClassUnknown)
}

// rewritten reports whether the tenant has changed what it says of the pod since the pod was made, or was told that
// what it says is refused. A change of anything else, such as a suspension, leaves an instance the pod that it has:
// a template that is gone, or is another one under its name, must not keep it from being suspended and resumed.
func rewritten(s *scope.Scope, current *unstructured.Unstructured, written map[string]any) bool {
	if toldRefused(s, current) {
		return true
	}
	words := notesOf(current).words
	if words == hashOf(written) {
		return false
	}
	_, numbered := current.GetAnnotations()[place.AnnotationGeneration]
	// Of a generation that was seen nothing can have changed: the words are those of the set whose member this was.
	return edited(s, current) || words != "" && !numbered
}

// podNotes are what a kro instance says of how its pod was made.
type podNotes struct {
	of, words string
	change    scope.PodChange
}

func notesOf(instance *unstructured.Unstructured) podNotes {
	annotations := instance.GetAnnotations()
	notes := podNotes{of: annotations[place.AnnotationPodOf], words: annotations[place.AnnotationPodWords]}
	_ = json.Unmarshal([]byte(annotations[place.AnnotationSetChange]), &notes.change) // what is damaged changes nothing
	return notes
}

func (n podNotes) write(instance *unstructured.Unstructured) {
	annotations := instance.GetAnnotations()
	change := ""
	if n.change != (scope.PodChange{}) {
		raw, _ := json.Marshal(n.change) //nolint:errchkjson // it has texts alone
		change = string(raw)
	}
	for name, value := range map[string]string{
		place.AnnotationPodOf: n.of, place.AnnotationPodWords: n.words, place.AnnotationSetChange: change,
	} {
		if value != "" {
			annotations[name] = value
		}
	}
	instance.SetAnnotations(annotations)
}

// tryPod asks the API server what it would say of the pod: its admission knows what no schema
// says, the pod security level, runtime classes, quota and every rule of a pod's fields. Without
// it, a StatefulSet would be made whose pod never comes.
func (r *reconciler) tryPod(ctx context.Context, s *scope.Scope, pod *podtemplate.Pod, replaces bool) error {
	sample := pod.Sample(s.Placement().Namespace())
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
	return &outcome.RefusalError{Recheck: triedAgain, Reason: outcome.ReasonPodRefused, Message: "the runtime cluster knows no user namespaces; remove hostUsers from " + s.Pod().Field()}
}

func (r *reconciler) refusedPod(ctx context.Context, s *scope.Scope, sample *corev1.Pod, refused error) error {
	if outcome.IsOwnRight(outcome.WhyRefused(refused)) {
		return fmt.Errorf("trying the pod: %w", refused)
	}
	if why := outcome.WhyRefused(refused); apierrors.IsForbidden(refused) && outcome.ExceedsQuota(why) {
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
		"the runtime cluster refuses the pod; correct %s: %s", s.Pod().Field(), outcome.WhyRefused(refused))}
}
