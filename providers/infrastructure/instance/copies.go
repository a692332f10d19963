// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/baseline"
	"github.com/sandbar-dev/sandbar/pkg/clone"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/frozen"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/workload"
)

// errPathUnknown: kcp does not tell the path of the workspace now, without which nobody knows which Baselines are for it. Nothing
// is changed until it does: an instance without a Baseline has no network to it, and another pod security level.
var errPathUnknown = errors.New("the path of the workspace is not known yet")

// copies freezes the workloads that the components of an instance are copies of, renders the copies, and copies what they
// refer to into the placement. It is nil for an instance of another kind.
//
// What is wrong with one component is told of that one, and the others go on. What is wrong with all of them is in the
// result, too; an error is one that a retry mends.
func (r *reconciler) copies(ctx context.Context, s *scope.Scope) (*outcome.Copies, error) {
	if s.Clones() == nil {
		return nil, nil
	}
	b, components, err := cloneSpec(s)
	var kept *frozen.Frozen
	made := &outcome.Copies{}
	if err == nil {
		kept, made, err = r.freeze(ctx, s, b, components)
	}
	var refused *outcome.RefusalError
	switch {
	case errors.As(err, &refused):
		return &outcome.Copies{Refused: refused}, nil
	case err != nil:
		return nil, err
	}
	copied := len(kept.Copied)
	for i := range made.Components {
		one := &made.Components[i]
		if one.Refused != nil {
			continue
		}
		if one.Rendered, err = clone.Render(renderInput(s, b, &components[i], one, kept.ID)); err == nil {
			err = r.copyReferences(ctx, s, b, one, kept.Copied)
		}
		if one.Refused, err = refusedOf(err); err != nil {
			return nil, err
		}
	}
	if len(kept.Copied) == copied {
		return made, nil
	}
	return made, frozenError(r.runtime.frozen.Write(ctx, s.ObjectMeta(""), kept))
}

// cloneSpec reads what the tenant says of the copies, and finds the Baseline.
func cloneSpec(s *scope.Scope) (*sandbarv1alpha1.Baseline, []sandbarv1alpha1.SandboxGroupComponent, error) {
	b, err := s.Baseline()
	var missing *baseline.NotFoundError
	if errors.As(err, &missing) {
		return nil, nil, &outcome.RefusalError{Reason: outcome.ReasonBaselineNotFound, Message: missing.Message}
	}
	if err != nil {
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

// freeze returns what is frozen of each component's workload: what was frozen before, as long as the component is of the same
// workload, or the workload as it is now. It is written before anything is made of it, so that a restart in between changes
// nothing.
func (r *reconciler) freeze(ctx context.Context, s *scope.Scope, b *sandbarv1alpha1.Baseline, components []sandbarv1alpha1.SandboxGroupComponent) (*frozen.Frozen, *outcome.Copies, error) {
	asked, err := askedAgain(s)
	if err != nil {
		return nil, nil, err
	}
	before, err := r.runtime.frozen.Read(ctx, s.Placement().Namespace())
	if err != nil {
		return nil, nil, err //nolint:wrapcheck // it says what it is about
	}
	kept := before
	if kept == nil {
		if kept, err = frozen.New(rand.Reader); err != nil {
			return nil, nil, err //nolint:wrapcheck // it says what it is about
		}
	}
	was := *kept
	kept.Components = map[string]frozen.Component{}
	made := &outcome.Copies{SandboxID: kept.ID, Discloses: b.Spec.Disclosure == sandbarv1alpha1.BaselineDisclosureTemplate}
	changed := before == nil
	for i := range components {
		one := outcome.Copy{Name: components[i].Name}
		source, err := workload.SourceOf(b, &components[i].SourceRef, s.Object().GetNamespace())
		if err == nil {
			one.Source, one.Frozen = source, was.Of(one.Name, source, asked)
			if one.Frozen == nil {
				one.Frozen, err = r.freezeNow(ctx, b, source, asked)
				changed = changed || one.Frozen != nil
			}
		}
		if one.Refused, err = refusedOf(err); err != nil {
			return nil, nil, err
		}
		if one.Frozen != nil {
			kept.Components[one.Name] = *one.Frozen
		} else if former, ok := was.Components[one.Name]; ok {
			kept.Components[one.Name] = former // until there is another: what is refused now may be admitted again
		}
		made.Components = append(made.Components, one)
	}
	if changed || len(kept.Components) != len(was.Components) {
		err = r.runtime.frozen.Write(ctx, s.ObjectMeta(""), kept)
	}
	return kept, made, frozenError(err)
}

// askedAgain is the time by which the tenant asks to have the workloads frozen again; zero if it does not.
func askedAgain(s *scope.Scope) (time.Time, error) {
	text := s.Object().GetAnnotations()[sandbarv1alpha1.AnnotationResnapshot]
	if text == "" {
		return time.Time{}, nil
	}
	asked, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return asked, &outcome.RefusalError{Reason: outcome.ReasonSpecRefused, Message: fmt.Sprintf(
			"the annotation %s must be a time such as 2026-11-28T17:00:00Z", sandbarv1alpha1.AnnotationResnapshot)}
	}
	return asked, nil
}

func (r *reconciler) freezeNow(ctx context.Context, b *sandbarv1alpha1.Baseline, source clone.Source, asked time.Time) (*frozen.Component, error) {
	snapshot, err := r.runtime.workloads.Freeze(ctx, b, source)
	if err != nil {
		return nil, err //nolint:wrapcheck // it says what to do
	}
	return &frozen.Component{Snapshot: snapshot, Time: r.now(), Asked: asked}, nil
}

// frozenError has a look repeated that another one has overtaken, and tells a refusal as one of the instance.
func frozenError(err error) error {
	var refused *clone.RefusedError
	switch {
	case errors.Is(err, frozen.ErrChanged):
		return errChanged
	case errors.As(err, &refused):
		return &outcome.RefusalError{Reason: outcome.ReasonSpecRefused, Message: refused.Message}
	}
	return terminating(err)
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
			return terminating(err)
		}
		copied[name] = one.Source.Namespace
	}
	return nil
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
