// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/log"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/contract"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/pkg/podtemplate"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/place"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/members"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/resize"
)

// resizeMode says whether a member that an object takes gets the resources of its template.
func resizeMode(s *scope.Scope) string {
	mode, _, _ := unstructured.NestedString(s.Object().Object, "spec", contract.ResizeField)
	return cmp.Or(mode, contract.ResizeRequire)
}

// fitting is a member as an object can take it.
type fitting struct {
	// no is set if it cannot.
	no bool
	// resized is what its containers had and have; nil if they were left as they are.
	resized *sandbarv1alpha1.InstanceStartResized
	// reason is why they have not the resources of the template, if that is not as somebody wants it.
	reason string
}

// fit has a member get the resources of an object's own pod before it is taken, if they differ and can. The error is an
// *outcome.StartError while that is under way: the look that its next step leads to goes on.
//
// First the pod is resized, and the kro instance says so as soon as the node has the room: its StatefulSet, which would
// replace the pod for a changed template, leaves it alone (OnDelete). Only then is the member adopted, so that a Sandbox is
// Ready with all that it wants, and stays so.
func (r *reconciler) fit(ctx context.Context, s *scope.Scope, member *corev1.Namespace, wish resize.Wish) (f fitting, err error) {
	mode := resizeMode(s)
	if r.members.PatchOf(member) != placement.PatchedResizable || mode == contract.ResizeKeep {
		return f, nil
	}
	keep := mode == contract.ResizeBestEffort
	if !r.members.MayResize(s) {
		return fitting{no: !keep, reason: sandbarv1alpha1.StartResizeInfeasible}, nil
	}
	object := requestOf(s.Placement())
	p, err := r.members.Resize(ctx, s, member, wish, func() { r.wake(object) })
	var why *members.ResizeError
	switch {
	case errors.Is(err, members.ErrResizeTaken):
		return fitting{no: true}, nil
	case errors.As(err, &why):
		return r.unfit(ctx, s, member, why, keep)
	case err != nil:
		return f, err
	}
	settled := false
	if p.Progress == resize.Admitted || p.Progress == resize.Done {
		if settled, err = r.composeResized(ctx, s, member, true); err != nil {
			return f, err
		}
	}
	if p.Progress != resize.Done || !settled {
		return f, &outcome.StartError{
			Reason: outcome.ReasonResizing, Message: "a sandbox of a SandboxSet is being given the resources of its template", Again: max(p.Left, time.Millisecond),
		}
	}
	resizesTotal.WithLabelValues(members.ResizeDone).Inc()
	if from, to := together(p.From), together(p.To); !equality.Semantic.DeepEqual(from, to) { // else an earlier process has resized it
		f.resized = &sandbarv1alpha1.InstanceStartResized{From: from, To: to}
	}
	return f, nil
}

// unfit is a member that could not get the resources; keep takes it as it was.
func (r *reconciler) unfit(ctx context.Context, s *scope.Scope, member *corev1.Namespace, why *members.ResizeError, keep bool) (f fitting, err error) {
	log.FromContext(ctx).Info("a member could not be resized", "member", member.Name, "outcome", why.Outcome, "cause", why.Message)
	if keep {
		if _, err := r.composeResized(ctx, s, member, false); err != nil {
			return f, err
		}
	}
	if err := r.members.GiveUpResize(ctx, s, member, why, keep); err != nil {
		return f, err
	}
	resizesTotal.WithLabelValues(why.Outcome).Inc()
	return fitting{no: !keep, reason: sandbarv1alpha1.StartResizeInfeasible}, nil
}

func together(of resize.Wish) sandbarv1alpha1.InstanceResources {
	sum := of.Sum()
	return sandbarv1alpha1.InstanceResources{Requests: sum.Requests, Limits: sum.Limits}
}

// composeResized has the kro instance of a member say the pod with the resources of its template, or again with those of
// its set. settled reports whether the placement has come to rest with it.
func (r *reconciler) composeResized(ctx context.Context, s *scope.Scope, member *corev1.Namespace, resized bool) (settled bool, err error) {
	if looked := r.members.Looked(member.Name); looked != nil && notesOf(looked).change.Resized == resized {
		return true, nil
	}
	id, _ := placement.IDOf(member)
	in := s.In(placement.Placed{ID: id, Owner: s.Placement().Owner, Object: s.Placement().Object})
	current, err := r.runtime.composed(ctx, in)
	if err != nil || current == nil {
		return false, err
	}
	notes := notesOf(current)
	if notes.change.Resized == resized {
		return false, nil // kro is at it
	}
	notes.change.Resized = resized
	desired, err := r.resizedInstance(ctx, in, current, notes)
	if err != nil {
		return false, err
	}
	if _, err := r.runtime.write(ctx, desired); err != nil {
		return false, fmt.Errorf("resizing a member: %w", err)
	}
	return false, nil
}

// resizedInstance is a member's kro instance as it is, but for the pod, which is made with other notes.
func (r *reconciler) resizedInstance(ctx context.Context, in *scope.Scope, current *unstructured.Unstructured, notes podNotes) (*unstructured.Unstructured, error) {
	written, _, _ := unstructured.NestedMap(in.Object().Object, "spec", in.Pod().Fields.From)
	spec, _, _ := unstructured.NestedMap(current.Object, "spec")
	former, _ := spec[in.Pod().Fields.To].(map[string]any)
	pod, _, err := r.buildPod(ctx, in, written, notes.change, former)
	if err != nil {
		return nil, err
	}
	fields, err := pod.Fields()
	if err != nil {
		return nil, fmt.Errorf("writing the pod: %w", err)
	}
	if notes.change.Resized {
		fields[podtemplate.FieldUpdateStrategy] = podtemplate.UpdateOnDelete
	}
	spec[in.Pod().Fields.To] = fields
	desired := in.NewComposed()
	desired.SetNamespace(current.GetNamespace())
	desired.SetName(current.GetName())
	desired.SetLabels(ours(current.GetLabels()))
	desired.SetAnnotations(ours(current.GetAnnotations()))
	desired.Object["spec"] = spec
	notes.write(desired)
	return desired, nil
}

// ours are the labels or annotations of a member's kro instance that the provider has written; the others are kro's.
func ours(all map[string]string) map[string]string {
	own := maps.Clone(all)
	maps.DeleteFunc(own, func(key, _ string) bool { return !strings.HasPrefix(key, sandbarv1alpha1.GroupName+"/") })
	return own
}

// completed are the resources of a pod's containers as the API server completes them in the object's placement.
func completed(s *scope.Scope, pod *podtemplate.Pod) (resize.Wish, error) {
	defaults, err := defaultsOf(s)
	if err != nil {
		return nil, err
	}
	return resize.Written(&pod.Template.Spec).Completed(defaults), nil
}

func defaultsOf(s *scope.Scope) (resize.Defaults, error) {
	bounds, err := place.BoundsOf(s)
	if err != nil {
		return resize.Defaults{}, err
	}
	return resize.Defaults{Request: bounds.Request, Limit: bounds.Limit}, nil
}

// resizable is an *outcome.RefusalError if a member with the patched pod could not get the resources of the plain one.
func resizable(s *scope.Scope, plain, patched *podtemplate.Pod) error {
	defaults, err := defaultsOf(s)
	if err != nil {
		return err
	}
	err = resize.Possible(&patched.Template.Spec, resize.Written(&plain.Template.Spec), defaults)
	var impossible *resize.ImpossibleError
	if !errors.As(err, &impossible) {
		return err
	}
	reason := sandbarv1alpha1.SandboxSetPatchRefused
	if impossible.Class {
		reason = sandbarv1alpha1.SandboxSetQosClassChanges
	}
	return &outcome.RefusalError{Reason: reason, Message: "correct spec.patch: " + impossible.Problem +
		", so that a Sandbox could not get the resources of its template without a restart; patch cpu and memory so that it can, or set spec.resizeOnClaim to Keep"}
}
