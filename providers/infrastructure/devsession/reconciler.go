// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package devsession

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/devsession"
	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/frozen"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
)

const (
	// finalizer has the deletion of a DevSession wait until the copy of its workload has the requests again.
	finalizer = "sandbar.dev/dev-session"
	// lookAgain is how soon a session is looked at again for what no event tells of: a quota that has room, a kind that is
	// offered.
	lookAgain = 10 * time.Second
	// changedAgain is when to look again at what somebody has changed meanwhile.
	changedAgain = 100 * time.Millisecond
)

// objects reads and writes DevSessions; *export.Objects does it in kcp.
type objects interface {
	Live(ctx context.Context, key export.Key) (*unstructured.Unstructured, error)
	Patch(ctx context.Context, key export.Key, data []byte, subresources ...string) (*unstructured.Unstructured, error)
	Remove(ctx context.Context, key export.Key, read *unstructured.Unstructured) error
}

// groups tell what there is of SandboxGroups; *instance.Groups does.
type groups interface {
	Work(ctx context.Context, group export.Key) (*instance.GroupWork, error)
}

// runtimeCluster reads the runtime cluster; cluster does.
type runtimeCluster interface {
	pods(ctx context.Context, namespace string) ([]corev1.Pod, error)
	endpoints(ctx context.Context, namespace, service string) (pods []string, ready int, err error)
	quotas(ctx context.Context, namespace string) ([]corev1.ResourceQuota, error)
}

// reconciler brings about what DevSessions say. What it did is what is recorded in the placements; it keeps nothing but which
// session is about which group.
type reconciler struct {
	objects objects
	groups  groups
	runtime runtimeCluster
	known   *known
	// wake has a session looked at.
	wake   func(export.Key)
	events eventWriter
	counts counts
	now    func() time.Time
}

// Reconcile looks at one DevSession.
func (r *reconciler) Reconcile(ctx context.Context, key export.Key) (reconcile.Result, error) {
	again, err := r.reconcile(ctx, key)
	if apierrors.IsConflict(err) || errors.Is(err, frozen.ErrChanged) {
		return reconcile.Result{RequeueAfter: changedAgain}, nil
	}
	return reconcile.Result{RequeueAfter: again}, err
}

func (r *reconciler) reconcile(ctx context.Context, key export.Key) (time.Duration, error) {
	read, err := r.objects.Live(ctx, key)
	if export.IsGone(err) {
		r.counts.drop(key)
		return r.leaveUnseen(ctx, key)
	}
	if err != nil {
		return 0, fmt.Errorf("reading DevSession %s: %w", key.Name, err)
	}
	obj := &sandbarv1alpha1.DevSession{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(read.Object, obj); err != nil {
		return 0, fmt.Errorf("reading DevSession %s: %w", key.Name, err)
	}
	r.known.set(key, groupOf(key, obj))
	switch has := slices.Contains(obj.Finalizers, finalizer); {
	case obj.DeletionTimestamp != nil && !has:
		return 0, nil
	case obj.DeletionTimestamp != nil:
		return r.finalize(ctx, key, obj)
	case !has:
		// Before anything is made: what is made must not outlast the session unseen. Its event brings the next look.
		return 0, r.writeMetadata(ctx, key, obj, map[string]any{"finalizers": append(slices.Clone(obj.Finalizers), finalizer)})
	}
	return r.converge(ctx, key, obj, read)
}

// groupOf is the group that a session is about: a Sandbox has one of its name.
func groupOf(key export.Key, obj *sandbarv1alpha1.DevSession) export.Key {
	return export.Key{Cluster: key.Cluster, NamespacedName: types.NamespacedName{Namespace: key.Namespace, Name: obj.Spec.SandboxRef.Name}}
}

// converge has the session as far as it can be, and reports how far that is.
func (r *reconciler) converge(ctx context.Context, key export.Key, obj *sandbarv1alpha1.DevSession, read *unstructured.Unstructured) (time.Duration, error) {
	found := &finding{}
	work, err := r.work(ctx, key, obj)
	if errors.Is(err, errUnknownYet) {
		return lookAgain, nil
	}
	if found.refused, err = refusedOf(err); err != nil {
		return 0, err
	}
	switch owner := ownerIn(obj); {
	case found.refused != nil && found.refused.Reason == sandbarv1alpha1.DevSessionSandboxNotFound && owner != nil,
		work != nil && owner != nil && owner.UID != work.Group.GetUID():
		// The group has been read, and is gone or another one: its placement went, and the workspace with it.
		return 0, r.remove(ctx, key, read)
	case work != nil && owner == nil:
		return 0, r.writeMetadata(ctx, key, obj, map[string]any{"ownerReferences": append(slices.Clone(obj.OwnerReferences), referenceTo(work))})
	}
	again := time.Duration(0)
	if work != nil {
		if again, err = r.advance(ctx, obj, work, found); err != nil {
			return 0, err
		}
	}
	reported, err := r.report(ctx, key, obj, statusFor(key, obj, work, found, r.now()))
	return outcome.Sooner(again, outcome.Sooner(reported, found.recheck)), err
}

// advance records the session, if there can be one, and takes the next step of the switch. It returns when to look again.
func (r *reconciler) advance(ctx context.Context, obj *sandbarv1alpha1.DevSession, work *instance.GroupWork, found *finding) (time.Duration, error) {
	record, recorded := work.Kept.Sessions[obj.Spec.Workload]
	if recorded && record.UID != obj.UID {
		found.refused = &devsession.RefusedError{Reason: sandbarv1alpha1.DevSessionAnother, Message: fmt.Sprintf(
			"spec.workload: %s is developed by DevSession %s; end that one, or choose another workload", obj.Spec.Workload, record.Name)}
		return 0, nil
	}
	wanted := devsession.Record{Name: obj.Name, UID: obj.UID, Spec: obj.Spec}.At(devsession.Beside, r.now())
	if recorded {
		wanted.Stage, wanted.Since = record.Stage, record.Since
	}
	var err error
	if found.refused, err = refusedOf(r.admit(ctx, wanted, recorded, work)); err != nil {
		return 0, err
	}
	if found.refused != nil {
		if !recorded {
			return 0, nil
		}
		wanted = record // what it has goes on
	}
	again, err := r.step(ctx, obj.Spec.Workload, &wanted, false, work, found)
	if err != nil {
		return 0, err
	}
	found.record = &wanted
	if recorded && record.Same(wanted) {
		return again, nil
	}
	return again, r.note(ctx, obj.Spec.Workload, wanted, work)
}

// step takes the next step of the switch in a record.
func (r *reconciler) step(ctx context.Context, component string, record *devsession.Record, ends bool, work *instance.GroupWork, found *finding) (time.Duration, error) {
	seen, err := r.observe(ctx, component, record, work, found)
	if err != nil {
		return 0, err
	}
	next, again := devsession.Next(record.Stage, record.Since, ends, seen, r.now())
	*record = record.At(next, r.now())
	return again, nil
}

// note writes a record into the placement, which has the group looked at.
func (r *reconciler) note(ctx context.Context, component string, record devsession.Record, work *instance.GroupWork) error {
	if work.Kept.Sessions == nil {
		work.Kept.Sessions = map[string]devsession.Record{}
	}
	work.Kept.Sessions[component] = record
	return work.Write(ctx, work.Kept) //nolint:wrapcheck // it says what it is about
}

// ownerIn is the reference of a session to the group that it was made for; nil before.
func ownerIn(obj *sandbarv1alpha1.DevSession) *metav1.OwnerReference {
	for i := range obj.OwnerReferences {
		if ref := &obj.OwnerReferences[i]; ref.Name == obj.Spec.SandboxRef.Name && ref.Kind == ownerKind {
			return ref
		}
	}
	return nil
}

func referenceTo(work *instance.GroupWork) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: work.GVK.GroupVersion().String(), Kind: work.GVK.Kind, Name: work.Group.GetName(), UID: work.Group.GetUID()}
}

// remove deletes a session whose group is gone.
func (r *reconciler) remove(ctx context.Context, key export.Key, read *unstructured.Unstructured) error {
	if err := r.objects.Remove(ctx, key, read); err != nil && !export.IsGone(err) {
		return fmt.Errorf("deleting DevSession %s, whose Sandbox is gone: %w", key.Name, err)
	}
	return nil
}

// writeMetadata writes under the version that was read, since a merge patch replaces whole lists.
func (r *reconciler) writeMetadata(ctx context.Context, key export.Key, obj *sandbarv1alpha1.DevSession, fields map[string]any) error {
	fields["resourceVersion"] = obj.ResourceVersion
	data, err := json.Marshal(map[string]any{"metadata": fields})
	if err == nil {
		_, err = r.objects.Patch(ctx, key, data)
	}
	if err != nil && !export.IsGone(err) {
		return fmt.Errorf("writing the metadata of DevSession %s: %w", key.Name, err)
	}
	return nil
}

// report writes the status, if it is another one, and returns when to look again.
func (r *reconciler) report(ctx context.Context, key export.Key, obj *sandbarv1alpha1.DevSession, status *sandbarv1alpha1.DevSessionStatus) (again time.Duration, err error) {
	r.counts.note(key, status.Phase)
	switch conditionOf(status, sandbarv1alpha1.DevSessionResolvedCondition).Reason {
	case sandbarv1alpha1.DevSessionQuotaExceeded, sandbarv1alpha1.DevSessionProviderUnavailable:
		again = lookAgain
	}
	if equality.Semantic.DeepEqual(*status, obj.Status) {
		return again, nil
	}
	data, err := export.StatusPatch(obj.Status, status)
	if err == nil {
		_, err = r.objects.Patch(ctx, key, data, "status")
	}
	if err != nil && !export.IsGone(err) {
		return 0, fmt.Errorf("writing the status of DevSession %s: %w", key.Name, err)
	}
	r.tell(ctx, key, obj, status)
	return again, nil
}
