// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/contract"
	"github.com/sandbar-dev/sandbar/pkg/inuse"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/pkg/podtemplate"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/lifecycle"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/place"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
)

// adopt gives an object that has no placement a member with the very pod that would be made for it. It
// returns the scope with that placement, or nil and why there is none. The error is an *outcome.RefusalError if
// there would be no pod.
//
// A member is adopted by one write to its namespace, under the version that says it is one. Two who want
// the same member, or one who wants it and a set that removes it, cannot both succeed. values are the object's own variables,
// which the member gets afterwards; nil for none.
func (r *reconciler) adopt(ctx context.Context, s *scope.Scope, values map[string][]byte) (warm *adopted, cold string, err error) {
	if reason := ineligible(s); reason != "" {
		return nil, reason, nil
	}
	began := time.Now()
	pod, err := r.podFacts(ctx, s)
	if err != nil {
		return nil, "", err
	}
	if values != nil && !pod.Late {
		return nil, sandbarv1alpha1.StartEnvNeedsColdStart, nil
	}
	found := time.Now()
	workspace := s.Placement().Owner.Cluster
	object := requestOf(s.Placement())
	candidates, err := r.members.InLine(ctx, s, pod.Revision, requiresMember(s), func() { r.wake(object) })
	if err != nil {
		return nil, "", err
	}
	s = s.Protected(s.Object(), r.tenants.WorkspacePath(ctx, workspace))
	unfit := ""
	for _, member := range candidates {
		fit, err := r.fit(ctx, s, member, pod.Resources)
		if err != nil {
			return nil, "", err
		}
		if fit.no {
			unfit = cmp.Or(unfit, fit.reason)
			continue
		}
		placed, instance, err := r.members.Take(ctx, s, member)
		if err != nil {
			return nil, "", err
		}
		if placed != nil {
			r.capacity.adopted(placed.ID, placed.Owner)
			r.members.Leave(object)
			return &adopted{scope: s.In(*placed), instance: instance, values: values, fit: fit, began: began, found: found, at: time.Now()}, "", nil
		}
	}
	if unfit != "" {
		r.members.Leave(object) // what it cannot have is for the next
		return nil, unfit, nil
	}
	return nil, r.members.WhyCold(workspace, s.Object().GetNamespace(), pod.Revision), nil
}

// adopted is an instance that has just taken a member.
type adopted struct {
	scope *scope.Scope
	// instance is the member's kro instance as it was last looked at; nil if that is not remembered.
	instance *unstructured.Unstructured
	// values are its own variables, which its pod is still to get; nil for none.
	values map[string][]byte
	// fit is how the member was made to be what the instance wants.
	fit fitting
	// began is when the revision of its pod was asked for, found when that was known, at when it was adopted, and
	// bound when its pod had its variables; zero if it has none.
	began, found, at, bound time.Time
}

// ineligible is why an object cannot take a member; empty if it can.
func ineligible(s *scope.Scope) string {
	written, _, _ := unstructured.NestedMap(s.Object().Object, "spec", s.Pod().Fields.From)
	prewarm, _, _ := unstructured.NestedString(s.Object().Object, "spec", contract.PrewarmField)
	source, err := podtemplate.NewSource(written)
	switch {
	case err != nil, source.TemplateRef == nil:
		return sandbarv1alpha1.StartOwnPodTemplate
	case prewarm == contract.PrewarmNone:
		return sandbarv1alpha1.StartPrewarmNone
	case lifecycle.Suspended(s.Object()):
		return sandbarv1alpha1.StartSuspended
	case source.Patch != nil:
		return sandbarv1alpha1.StartPatchDiffers
	case len(source.VolumeClaimTemplates) > 0:
		return sandbarv1alpha1.StartVolumesDiffer
	}
	return ""
}

// revisionID stands for every placement in podFacts: a pod has the UID of its placement in a label.
var revisionID = placement.ID{Origin: "sandbar-revision", UID: "revision"}

// podFacts are of the pod that would be made for an object now. Its revision is of all that the operator says of it, too:
// objects with one revision have the same pod. They are computed once for the same words of the same templates under the same
// settings. The error is an *outcome.RefusalError if there would be none.
func (r *reconciler) podFacts(ctx context.Context, s *scope.Scope) (facts scope.PodFacts, err error) {
	written, _, _ := unstructured.NestedMap(s.Object().Object, "spec", s.Pod().Fields.From)
	source, err := podtemplate.NewSource(written)
	if err != nil {
		return facts, place.SpecRefused(s, err)
	}
	uids := ""
	if source.TemplateRef != nil {
		if uids, err = s.Pod().Offers.UIDs(ctx, source.TemplateRef, r.sandboxTemplates(s)); err != nil {
			return facts, unusable(s, err)
		}
	}
	if known, ok := s.Settings().Computed.Pod(revisionKey(written, uids)); ok {
		return known, nil
	}
	podRevisionsTotal.Inc()
	made, err := r.revisionPod(ctx, s, scope.PodChange{})
	if err != nil {
		return facts, err
	}
	facts.Revision, facts.Late, facts.EnvNames = made.revision, made.pod.Late(), made.pod.EnvNames()
	if facts.Resources, err = completed(s, made.pod); err != nil {
		return facts, err
	}
	// Under what it was made of: a template may have taken the place of another one since.
	s.Settings().Computed.SetPod(revisionKey(written, made.of), facts)
	return facts, nil
}

func revisionKey(written map[string]any, uids string) string { return hashOf(written) + "|" + uids }

// revised is a pod, what it is made of, and the revision that both have.
type revised struct {
	pod          *podtemplate.Pod
	of, revision string
}

// revisionPod computes the revision of a pod, with what a set changes.
func (r *reconciler) revisionPod(ctx context.Context, s *scope.Scope, change scope.PodChange) (made revised, err error) {
	written, _, _ := unstructured.NestedMap(s.Object().Object, "spec", s.Pod().Fields.From)
	alike := place.Unbound(s).In(placement.Placed{ID: revisionID, Owner: s.Placement().Owner, Object: s.Placement().Object})
	if made.pod, made.of, err = r.buildPod(ctx, alike, written, change, nil); err != nil {
		return made, err
	}
	fields, err := made.pod.Fields()
	if err != nil {
		return made, fmt.Errorf("writing the pod: %w", err)
	}
	made.revision = hashOf([]any{fields, made.of, s.Revisions().Revision, s.PodSecurity()})
	return made, nil
}

// serveWarm reports an instance that has just adopted its placement. Everything in that is as the next look
// would make it: the look that the adoption's own event leads to puts on the finalizer.
func (r *reconciler) serveWarm(ctx context.Context, req request, warm *adopted) error {
	s := warm.scope
	o := outcome.Outcome{Start: startOf(s, sandbarv1alpha1.StartWarm, warm.fit.reason, s.Placement().Adopted.At)}
	o.Start.Resized = warm.fit.resized
	o.Plan.Used = inuse.Record{}.Since(s.Placement().Adopted.At)
	o.Instance, o.Composing = r.runtime.unchanged(ctx, s, warm.instance)
	if o.Composing == nil && o.Instance == nil {
		return nil // somebody has deleted it; the next look tells
	}
	var err error
	if o.Observation, err = r.observe(ctx, s, o); err != nil {
		return err
	}
	observed := time.Now()
	if _, err = r.report(ctx, req, s, o); err == nil {
		warm.timed(observed, time.Now())
	}
	return err
}

// timed counts how long the steps of a warm start took.
func (a *adopted) timed(observed, told time.Time) {
	steps := map[string]time.Duration{"revision": a.found.Sub(a.began), "adoption": a.at.Sub(a.found), "status": told.Sub(observed)}
	if a.bound.IsZero() {
		steps["observation"] = observed.Sub(a.at)
	} else {
		steps["binding"], steps["observation"] = a.bound.Sub(a.at), observed.Sub(a.bound)
	}
	for step, took := range steps {
		claimStepSeconds.WithLabelValues(step).Observe(took.Seconds())
	}
}

// startUntold says how an instance starts that has its place, if the status that was to say so could not be
// written; nil if it says so, or if the instance has come to be already.
func startUntold(s *scope.Scope) *sandbarv1alpha1.InstanceStart {
	switch {
	case s.Pod() == nil:
		return startWithoutSets(s)
	case !isUntold(s.Status()):
		return nil
	case s.Placement().Born():
		return startOf(s, sandbarv1alpha1.StartWarm, "", s.Placement().Adopted.At)
	}
	return startOf(s, sandbarv1alpha1.StartCold, sandbarv1alpha1.StartUnknown, time.Time{})
}

// isUntold reports whether a status does not say yet how the instance came to be. One that has come to be before there was
// such a field never says it.
func isUntold(status sandbarv1alpha1.InstanceStatus) bool {
	return status.Start == nil && (status.Phase == "" || slices.Contains(outcome.Beginnings, status.Phase))
}

// startWithoutSets says how an instance starts of a kind that no set keeps ready; nil for other kinds. Only the first status
// of an instance begins to record its start: an instance of before may be Materializing because it takes a change.
func startWithoutSets(s *scope.Scope) *sandbarv1alpha1.InstanceStart {
	if s.Pod() != nil || s.Status().Phase != "" {
		return nil
	}
	return startOf(s, sandbarv1alpha1.StartCold, "", time.Time{})
}

// startOf says how an instance starts.
func startOf(s *scope.Scope, kind, reason string, placed time.Time) *sandbarv1alpha1.InstanceStart {
	start := &sandbarv1alpha1.InstanceStart{Type: kind, Reason: reason}
	start.Times.Requested = &metav1.MicroTime{Time: s.Object().GetCreationTimestamp().Time}
	if !placed.IsZero() {
		start.Times.Placed = &metav1.MicroTime{Time: placed}
	}
	if set := s.Placement().Adopted.Set; set != "" {
		start.Set = &sandbarv1alpha1.InstanceStartSet{Name: set}
	}
	return start
}
