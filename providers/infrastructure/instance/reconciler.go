// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// tenantObjects reads and writes tenants' objects of one kind; tenants does it against kcp.
type tenantObjects interface {
	// cached returns a copy of what the cache holds, or nil. It may be stale for long: kcp's
	// informers can miss a deletion (kcp#4364), so nothing is created on its word alone.
	cached(req request) *unstructured.Unstructured
	// live asks kcp; a NotFound means that the object is gone for certain.
	live(ctx context.Context, req request) (*unstructured.Unstructured, error)
	// patch writes a JSON merge patch and returns the object as it then is.
	patch(ctx context.Context, req request, data []byte, subresources ...string) (*unstructured.Unstructured, error)
	// remove deletes the object if it still is as it was read.
	remove(ctx context.Context, req request, read *unstructured.Unstructured) error
	// record writes an event beside the object.
	record(ctx context.Context, req request, event *corev1.Event) error
	// workspacePath is the path of a workspace, for people; empty when it is not known.
	workspacePath(ctx context.Context, cluster string) string
}

// reconciler brings the placements of one kind in line with tenants' objects.
type reconciler struct {
	kind     kind
	settings func() settings
	tenants  tenantObjects
	runtime  runtimeCluster
	teller   *teller
	now      func() time.Time
}

// Reconcile handles one tenant's object.
func (r *reconciler) Reconcile(ctx context.Context, req request) (result reconcile.Result, err error) {
	if ctx.Err() != nil {
		return result, nil // the kind is being stopped; its queue is only drained
	}
	defer func() { countReconcile(r.kind, err) }()
	obj := r.tenants.cached(req)
	if obj == nil {
		return result, r.reconcileMissing(ctx, req)
	}
	if obj.GetDeletionTimestamp() != nil {
		return r.finalize(ctx, req, obj)
	}
	return r.converge(ctx, req, obj)
}

// reconcileMissing handles an object that the cache does not hold: it is gone, or so new that
// only kcp knows of it.
func (r *reconciler) reconcileMissing(ctx context.Context, req request) error {
	abandoned, err := r.placementsOf(ctx, req)
	if err != nil || len(abandoned) == 0 {
		return err
	}
	return r.removeAbandoned(ctx, req, abandoned)
}

// converge makes the placement what the object says and reports what became of it.
func (r *reconciler) converge(ctx context.Context, req request, obj *unstructured.Unstructured) (reconcile.Result, error) {
	s := r.scopeOf(req, obj)
	if s.infrastructure == nil {
		return reconcile.Result{}, r.report(ctx, req, s, outcome{placing: errNotConfigured})
	}
	if err := r.confirm(ctx, req, s); err != nil {
		return reconcile.Result{}, ignoreGone(err)
	}
	s.workspacePath = r.tenants.workspacePath(ctx, req.cluster)
	var o outcome
	if o.placing = r.place(ctx, s); o.placing == nil {
		o.composing = r.schedule(ctx, s)
	}
	if s.decision.deleted != "" {
		return r.expire(ctx, req, s)
	}
	if o.placing == nil && o.composing == nil {
		if o.instance, o.composing = r.compose(ctx, s); o.composing == nil {
			countLifecycle(s)
		}
	}
	recheck, looking := r.observe(ctx, s, &o)
	if err := r.report(ctx, req, s, o); err != nil {
		return reconcile.Result{}, err
	}
	if err := retried(errors.Join(o.placing, o.composing, looking)); err != nil {
		return reconcile.Result{}, err
	}
	again := s.decision.again(r.now())
	again.RequeueAfter = sooner(again.RequeueAfter, recheck)
	return again, nil
}

func (r *reconciler) scopeOf(req request, obj *unstructured.Unstructured) *scope {
	return &scope{
		kind:     r.kind,
		settings: r.settings(),
		id:       placement.ID{Cluster: req.cluster, UID: obj.GetUID()},
		object:   obj,
	}
}

// confirm makes sure, before anything is created for it, that the object exists and carries
// the finalizer. A cached object is not enough: after a missed deletion it would be placed
// again and again, as often as the sweep removes it. Writing the finalizer is proof, and so is
// an existing placement, which others guard.
func (r *reconciler) confirm(ctx context.Context, req request, s *scope) error {
	placements, err := r.placementsOf(ctx, req)
	if err != nil {
		return err
	}
	mine := false
	for _, p := range placements {
		mine = mine || p.GetName() == s.id.Namespace()
	}
	hasFinalizer := controllerutil.ContainsFinalizer(s.object, placement.Finalizer)
	if hasFinalizer && mine && len(placements) == 1 {
		return nil
	}
	if !hasFinalizer {
		if s.object, err = r.addFinalizer(ctx, req, s.object); err != nil {
			return err
		}
	} else {
		live, err := r.tenants.live(ctx, req)
		if apierrors.IsForbidden(err) {
			return errStale // its workspace or its binding is gone
		}
		if err != nil {
			return fmt.Errorf("confirming the instance: %w", err)
		}
		if live.GetUID() != s.object.GetUID() || live.GetDeletionTimestamp() != nil {
			return errStale
		}
	}
	// The name was used before: the object that stands now was just confirmed, so the former
	// one is gone.
	for i := range placements {
		if placements[i].GetName() != s.id.Namespace() {
			if err := r.removeNamespace(ctx, &placements[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// errStale means that the cache is behind kcp; the event that brings it up to date comes.
var errStale = errors.New("the cached instance is out of date")

func (r *reconciler) addFinalizer(ctx context.Context, req request, obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	changed := obj.DeepCopy()
	controllerutil.AddFinalizer(changed, placement.Finalizer)
	return r.patchMetadata(ctx, req, obj, changed)
}

// patchMetadata writes a change under the resource version that was read: a merge patch
// replaces the whole list of finalizers and would drop one that somebody else just added.
func (r *reconciler) patchMetadata(ctx context.Context, req request, before, after *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	data, err := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}).Data(after)
	if err != nil {
		return nil, fmt.Errorf("encoding the finalizers: %w", err)
	}
	obj, err := r.tenants.patch(ctx, req, data)
	if err != nil {
		return nil, fmt.Errorf("writing the finalizers: %w", err)
	}
	return obj, nil
}

// report writes the status if it differs. After an error that mends itself, an instance that
// was placed keeps its status: its sandbox runs on, whatever the API server answers just now.
func (r *reconciler) report(ctx context.Context, req request, s *scope, o outcome) error {
	o.now = r.now()
	status, err := buildStatus(s, o)
	if err != nil {
		return err
	}
	old, err := readStatus(s.object)
	if err != nil || keepStatus(old, o) {
		return err
	}
	before, _ := s.object.Object["status"].(map[string]any)
	if equality.Semantic.DeepEqual(before, status) {
		return nil
	}
	changed := s.object.DeepCopy()
	changed.Object["status"] = status
	// Under the version that was read: a cache that is behind would give a condition that
	// changed a moment ago the time of a second change.
	data, err := client.MergeFromWithOptions(s.object, client.MergeFromWithOptimisticLock{}).Data(changed)
	if err != nil {
		return fmt.Errorf("encoding the status: %w", err)
	}
	if _, err := r.tenants.patch(ctx, req, data, "status"); err != nil {
		return ignoreGone(fmt.Errorf("writing the status: %w", err))
	}
	written, err := readStatus(changed)
	if err != nil {
		return err
	}
	log.FromContext(ctx).V(1).Info("wrote the status", "phase", written.Phase)
	r.tellPhase(ctx, req, s, old, written)
	return nil
}

func keepStatus(old sandbarv1alpha1.InstanceStatus, o outcome) bool {
	placed, composed := placedVerdict(o), verdict{}
	if placed.ok {
		composed = composedVerdict(placed, o)
	}
	mendsItself := placed.reason == reasonRuntimeError || composed.reason == reasonRuntimeError
	return mendsItself && meta.IsStatusConditionTrue(old.Conditions, sandbarv1alpha1.InstancePlaced)
}

// retried drops the errors that an event or a person mends and a retry does not.
func retried(err error) error {
	var configuration *configurationError
	var refused *refusal
	switch {
	case errors.Is(err, errTerminating), errors.As(err, &configuration), errors.As(err, &refused), apierrors.IsInvalid(err):
		return nil
	}
	return err
}

// ignoreGone drops what a tenant's object that is gone or has changed answers: its own event
// follows, or, where a deletion was missed, the sweep. The runtime cluster's answers are tried
// again: its quota says Conflict, too, and a kind that is not served yet NotFound.
func ignoreGone(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) || errors.Is(err, errStale) {
		return nil
	}
	return err
}
