// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/clone"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/frozen"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/workload"
)

// freeze returns what is frozen of each component's workload: what was frozen before, as long as the component is of the same
// workload and the Baseline offers that, or the workload as it is now. It is written before anything is made of it, so that a
// restart in between changes nothing.
func (r *reconciler) freeze(ctx context.Context, s *scope.Scope, current *unstructured.Unstructured, b *sandbarv1alpha1.Baseline, components []sandbarv1alpha1.SandboxGroupComponent) (*frozen.Frozen, *outcome.Copies, error) {
	asked, err := askedAgain(s)
	if err != nil {
		return nil, nil, err
	}
	kept, stored, err := r.kept(ctx, s, current)
	if err != nil {
		return nil, nil, err
	}
	was := *kept
	kept.Components = map[string]frozen.Component{}
	made := &outcome.Copies{SandboxID: kept.ID, Discloses: b.Spec.Disclosure == sandbarv1alpha1.BaselineDisclosureTemplate}
	made.Sessions, made.SessionsKnown = kept.Sessions, true
	changed := !stored
	for i := range components {
		one := outcome.Copy{Name: components[i].Name}
		source, err := workload.SourceOf(b, &components[i].SourceRef, s.Object().GetNamespace())
		if err == nil {
			var fresh bool
			one.Source = source
			one.Frozen, fresh, err = r.frozenOf(ctx, b, was.Of(one.Name, source, asked), source, asked)
			changed = changed || fresh
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

// kept returns what the placement keeps of its sources, or the beginning of that, and reports whether it is written already.
func (r *reconciler) kept(ctx context.Context, s *scope.Scope, current *unstructured.Unstructured) (kept *frozen.Frozen, stored bool, err error) {
	kept, err = r.runtime.frozen.Read(ctx, s.Placement().Namespace())
	if err != nil || kept != nil {
		return kept, true, err //nolint:wrapcheck // it says what it is about
	}
	if err := r.snapshotsLost(ctx, s, current); err != nil {
		return nil, false, err
	}
	if kept, err = frozen.New(rand.Reader); err != nil {
		return nil, false, err //nolint:wrapcheck // it says what it is about
	}
	if told := outcome.SandboxIDOf(s.Object()); told != "" {
		kept.ID = told // what was deleted, or went with the namespace, had it: requests are routed by it
	}
	if current == nil {
		return kept, false, nil
	}
	// At once: a component that is refused must not make a loss that was told one that is not.
	return kept, true, frozenError(r.runtime.frozen.Write(ctx, s.ObjectMeta(""), kept))
}

// askedAgain is the time by which the tenant asks to have the workloads frozen again; zero if it does not.
func askedAgain(s *scope.Scope) (time.Time, error) {
	text := s.Object().GetAnnotations()[sandbarv1alpha1.AnnotationResnapshot]
	if text == "" {
		return time.Time{}, nil
	}
	asked, err := time.Parse(time.RFC3339, text)
	// The attack: of a time of the year 9999 in another zone the year 10000 is kept, which JSON does not have.
	if asked = asked.UTC(); err != nil || asked.Year() < 1 || asked.Year() > 9999 {
		return asked, &outcome.RefusalError{Reason: outcome.ReasonSpecRefused, Message: fmt.Sprintf(
			"the annotation %s must be a time such as 2026-11-28T17:00:00Z", sandbarv1alpha1.AnnotationResnapshot)}
	}
	return asked, nil
}

// frozenOf returns what was frozen of a source before, or the source as it is now, and reports whether it is the latter. Both
// are asked of the Baseline as it is now: what it does not offer is refused.
func (r *reconciler) frozenOf(ctx context.Context, b *sandbarv1alpha1.Baseline, before *frozen.Component, source clone.Source, asked time.Time) (c *frozen.Component, fresh bool, err error) {
	// Whether a Baseline with a selector offers a source whose labels were not kept is known once it has been read again.
	if before != nil && (before.Labels != nil || !workload.NeedsLabels(b)) {
		if err := workload.Admit(b, source, before.Labels); err != nil {
			return nil, false, err //nolint:wrapcheck // it says what to do
		}
		return before, false, nil
	}
	snapshot, labels, err := r.runtime.workloads.Freeze(ctx, b, source)
	if err != nil {
		return nil, false, err //nolint:wrapcheck // it says what to do
	}
	// What is too large to be kept is refused here, where the component is known. When all are written together, it would keep
	// the others from being copied.
	if _, err := snapshot.Encode(); err != nil {
		return nil, false, err //nolint:wrapcheck // it says what to do
	}
	return &frozen.Component{Snapshot: snapshot, Labels: labels, Time: r.now(), Asked: asked}, true, nil
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
