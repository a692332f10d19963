// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/baseline"
	"github.com/sandbar-dev/sandbar/pkg/clone"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/place"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
)

// errPathUnknown: kcp does not tell the path of the workspace now, without which nobody knows which Baselines are for it. Nothing
// is changed until it does: an instance without a Baseline has no network to it, and another pod security level.
var errPathUnknown = errors.New("the path of the workspace is not known yet")

// copies freezes the workloads that the components of an instance are copies of, renders the copies, and copies what they
// refer to into the placement. It is nil for an instance of another kind.
//
// What is wrong with one component is told of that one, and the others go on. What is wrong with all of them is in the
// result, too, and so is an error that a retry mends: with either, what runs can still be suspended. current is the kro instance
// that there is, or nil. The error is errChanged, one that says that the placement is on its way out, or a loss: there are copies of
// which nothing is frozen.
func (r *reconciler) copies(ctx context.Context, s *scope.Scope, current *unstructured.Unstructured) (*outcome.Copies, error) {
	if s.Clones() == nil {
		return nil, nil
	}
	made, err := r.makeCopies(ctx, s, current)
	var refused *outcome.RefusalError
	switch {
	case errors.As(err, &refused):
		return r.withSessions(ctx, s, &outcome.Copies{Refused: refused}), nil
	case errors.Is(err, errChanged), errors.Is(err, outcome.ErrTerminating), outcome.LossOf(err) != nil:
		return nil, err
	case err != nil:
		return &outcome.Copies{Err: err}, nil //nolint:nilerr // it is in the result
	}
	return made, nil
}

func (r *reconciler) makeCopies(ctx context.Context, s *scope.Scope, current *unstructured.Unstructured) (*outcome.Copies, error) {
	b, components, err := cloneSpec(s)
	if err != nil {
		return nil, err
	}
	kept, made, err := r.freeze(ctx, s, current, b, components)
	if err != nil {
		return nil, err
	}
	copied, size := len(kept.Copied), 0
	for i := range made.Components {
		one := &made.Components[i]
		if one.Refused != nil {
			continue
		}
		if one.Rendered, err = clone.Render(renderInput(s, b, &components[i], one, kept.ID)); err == nil {
			err = r.keepReferences(ctx, s, b, one, kept.Copied, &size)
		}
		if one.Refused, err = refusedOf(err); err == nil && one.Refused == nil {
			err = r.develop(s, one, kept.Sessions, &size)
		}
		if err != nil {
			break
		}
	}
	if len(kept.Copied) > copied { // also of what was copied before an error
		err = errors.Join(err, frozenError(r.runtime.frozen.Write(ctx, s.ObjectMeta(""), kept)))
	}
	return made, err
}

// keepReferences is copyReferences for a copy that fits beside the ones before it; size is theirs together, and then with it.
func (r *reconciler) keepReferences(ctx context.Context, s *scope.Scope, b *sandbarv1alpha1.Baseline, one *outcome.Copy, copied map[string]string, size *int) error {
	bytes, err := place.CopyBytes(one.Rendered)
	if err != nil {
		return err //nolint:wrapcheck // it says what it is about
	}
	if *size+bytes > clone.MaxCopiesBytes {
		return &clone.RefusedError{Reason: clone.NotCloneable, Message: fmt.Sprintf(
			"the copies of the instance have more than %d bytes together with this one, which has %d; have a smaller patch, or fewer components in an instance", clone.MaxCopiesBytes, bytes)}
	}
	*size += bytes
	return r.copyReferences(ctx, s, b, one, copied)
}

// madeFor is the scope with what the Namespace of a placement of copies says of it, asked from the API server: a cache may not
// have heard yet which Baseline it was made for, and another one would be written over that.
func (r *reconciler) madeFor(ctx context.Context, s *scope.Scope) (*scope.Scope, error) {
	if s.Clones() == nil {
		return s, nil
	}
	ns := &corev1.Namespace{}
	if err := r.runtime.live.Get(ctx, types.NamespacedName{Name: s.Placement().Namespace()}, ns); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading the placement: %w", err)
	}
	return s.MadeFor(place.MadeFor(ns)), nil
}

// cloneSpec reads what the tenant says of the copies, and finds the Baseline.
func cloneSpec(s *scope.Scope) (*sandbarv1alpha1.Baseline, []sandbarv1alpha1.SandboxGroupComponent, error) {
	b, err := s.Baseline()
	var missing *baseline.NotFoundError
	var changed *scope.BaselineChangedError
	switch {
	case errors.As(err, &missing):
		return nil, nil, &outcome.RefusalError{Reason: outcome.ReasonBaselineNotFound, Message: missing.Message}
	case errors.As(err, &changed):
		return nil, nil, &outcome.RefusalError{Reason: outcome.ReasonBaselineChanged, Message: changed.Error()}
	case err != nil:
		return nil, nil, err
	}
	spec, _, _ := unstructured.NestedMap(s.Object().Object, "spec")
	var read struct {
		Components []sandbarv1alpha1.SandboxGroupComponent `json:"components"`
	}
	fields := map[string]any{"components": spec[s.Clones().Fields.From]}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &read); err != nil {
		return nil, nil, &outcome.RefusalError{Reason: outcome.ReasonSpecRefused, Message: fmt.Sprintf("correct spec.%s: %v", s.Clones().Fields.From, err)}
	}
	return b, read.Components, nil
}

// terminating tells that nothing can be made in a placement that is on its way out.
func terminating(err error) error {
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return fmt.Errorf("%w: %w", outcome.ErrTerminating, err)
	}
	return err
}

// refusedOf tells what is wrong with a component from an error that a retry mends.
func refusedOf(err error) (*clone.RefusedError, error) {
	var refused *clone.RefusedError
	if errors.As(err, &refused) {
		return refused, nil
	}
	return nil, err
}

func renderInput(s *scope.Scope, b *sandbarv1alpha1.Baseline, component *sandbarv1alpha1.SandboxGroupComponent, one *outcome.Copy, id string) clone.Input {
	metadata := s.Infrastructure().InstanceMetadata
	in := clone.Input{
		Group: s.Object().GetName(), Component: component, Snapshot: one.Frozen.Snapshot, SandboxID: id, Labels: s.ObjectMeta("").Labels,
		Rules: clone.Rules{
			Baseline: b.Name, Images: b.Spec.Images, References: b.Spec.References, Limits: b.Spec.Limits,
			LabelPrefixes: metadata.LabelPrefixes, AnnotationPrefixes: metadata.AnnotationPrefixes,
		},
	}
	if b.Spec.Network.ReachesBaseline() {
		in.Searches = searches(b, s.Object().GetNamespace())
	}
	return in
}

// searches are the namespaces in which a copy finds Services by their short names: that of its own alias first.
func searches(b *sandbarv1alpha1.Baseline, own string) []string {
	var first, others []string
	for _, alias := range baseline.Aliases(&b.Spec) {
		namespace, _ := baseline.Namespace(&b.Spec, alias)
		if alias == own {
			first = append(first, namespace)
		} else {
			others = append(others, namespace)
		}
	}
	return append(first, others...)
}

// copyReferences copies what a copy refers to beside it. copied is what the placement has, by Kind/name, from which namespace.
func (r *reconciler) copyReferences(ctx context.Context, s *scope.Scope, b *sandbarv1alpha1.Baseline, one *outcome.Copy, copied map[string]string) error {
	for _, ref := range neededBy(one.Rendered) {
		name := ref.Kind + "/" + ref.Name
		from, there := copied[name]
		switch {
		case from == one.Source.Namespace:
			continue
		case there:
			return &clone.RefusedError{Reason: clone.RenderFailed, Message: fmt.Sprintf(
				"%s: the instance has a copy of another %s %s already, from another namespace of the Baseline; put the two components into an instance each", ref.Path, ref.Kind, ref.Name)}
		}
		err := r.runtime.copier.Copy(ctx, b, one.Source, ref, s.ObjectMeta(ref.Name))
		if ref.Optional && isNotThere(err) {
			continue // the pod starts without it
		}
		if err != nil {
			return uncopied(ref, err)
		}
		copied[name] = one.Source.Namespace
	}
	return nil
}

// uncopied is an error of copying what a copy refers to. A quota that is used up is the component's: a retry alone mends nothing.
func uncopied(ref clone.Reference, err error) error {
	if apierrors.IsForbidden(err) {
		if why := outcome.WhyRefused(err); outcome.ExceedsQuota(why) {
			return &clone.RefusedError{Reason: outcome.ReasonQuota, Message: ref.Path + ": " + outcome.OutOfQuota(why).Message}
		}
	}
	return terminating(err)
}

// neededBy lists what a copy needs beside it, each with the first field that refers to it.
func neededBy(rendered *clone.Rendered) (needed []clone.Reference) {
	all := clone.References(&rendered.Deployment.Spec.Template)
	add := func(kind string, list []clone.Needed) {
		for _, one := range list {
			at := slices.IndexFunc(all, func(ref clone.Reference) bool { return ref.Kind == kind && ref.Name == one.Name })
			if at < 0 {
				continue
			}
			needed = append(needed, clone.Reference{Kind: kind, Name: one.Name, Optional: one.Optional, Path: all[at].Path})
		}
	}
	add(clone.KindConfigMap, rendered.ConfigMaps)
	add(clone.KindSecret, rendered.Secrets)
	return needed
}

// isNotThere reports whether a copy failed because there is no original.
func isNotThere(err error) bool {
	refused, _ := refusedOf(err)
	return refused != nil && refused.Reason == clone.RenderFailed
}
