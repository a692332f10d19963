// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package devsession

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/devsession"
	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance"
)

// finalize gives the copy its requests back, has the session's objects go, and then lets the session go.
func (r *reconciler) finalize(ctx context.Context, key export.Key, obj *sandbarv1alpha1.DevSession) (time.Duration, error) {
	work, err := r.groups.Work(ctx, groupOf(key, obj))
	switch {
	case isGone(err, obj.Spec.SandboxRef.Name), errors.Is(err, instance.ErrNotPlaced) && obj.Status.DeploymentName == "":
		return 0, r.letGo(ctx, key, obj)
	case errors.Is(err, instance.ErrNoKind), errors.Is(err, instance.ErrNotPlaced):
		return lookAgain, nil // nobody knows yet what there is
	case err != nil:
		return 0, fmt.Errorf("reading SandboxGroup %s: %w", obj.Spec.SandboxRef.Name, err)
	case work.Group.GetDeletionTimestamp() != nil:
		return 0, r.letGo(ctx, key, obj) // the placement goes, with all that the session has there
	}
	found := &finding{}
	done, again, err := r.leave(ctx, devsession.Record{Name: obj.Name, UID: obj.UID, Spec: obj.Spec}, work, found)
	if err != nil {
		return 0, err
	}
	if done {
		return 0, r.letGo(ctx, key, obj)
	}
	_, err = r.report(ctx, key, obj, statusFor(key, obj, work, found, r.now()))
	return again, err
}

// leave takes the next step of the end of a session, and reports whether nothing of it is left.
func (r *reconciler) leave(ctx context.Context, of devsession.Record, work *instance.GroupWork, found *finding) (done bool, again time.Duration, err error) {
	component := of.Spec.Workload
	record, recorded := work.Kept.Sessions[component]
	recorded = recorded && record.UID == of.UID
	switch {
	case !work.Made[of.UID] && !recorded:
		return true, 0, nil
	case !recorded && work.Kept.Sessions[component].UID != "":
		return true, 0, nil // another one has the workload: its look removes nothing of this one, and the group's end does
	case !recorded: // somebody has deleted what was noted
		return false, 0, r.note(ctx, component, of.At(devsession.Gone, r.now()), work)
	case record.Stage == devsession.Gone && !work.Made[of.UID]:
		delete(work.Kept.Sessions, component)
		return true, 0, work.Write(ctx, work.Kept) //nolint:wrapcheck // it says what it is about
	case record.Stage == devsession.Gone:
		return false, lookAgain, nil // the look at the group brings the next one
	}
	wanted := record
	if again, err = r.step(ctx, component, &wanted, true, work, found); err != nil {
		return false, 0, err
	}
	found.record = &wanted
	if record.Same(wanted) {
		return false, again, nil
	}
	return false, again, r.note(ctx, component, wanted, work)
}

// leaveUnseen ends what a session has left that went without its finalizer's leave. Which group it was about is known from a look at
// the session or at the group.
func (r *reconciler) leaveUnseen(ctx context.Context, key export.Key) (time.Duration, error) {
	group, ok := r.known.group(key)
	if !ok {
		return 0, nil
	}
	work, err := r.groups.Work(ctx, group)
	switch {
	case isGone(err, group.Name), errors.Is(err, instance.ErrNotPlaced):
		r.forget(key, group)
		return 0, nil
	case errors.Is(err, instance.ErrNoKind):
		return lookAgain, nil
	case err != nil:
		return 0, fmt.Errorf("reading SandboxGroup %s: %w", group.Name, err)
	}
	for component, record := range work.Kept.Sessions {
		if record.Name != key.Name {
			continue
		}
		record.Spec.Workload = component
		if done, again, err := r.leave(ctx, record, work, &finding{}); err != nil || !done {
			return again, err
		}
		break // what is noted has been changed
	}
	r.forget(key, group)
	return 0, nil
}

// letGo takes the finalizer off.
func (r *reconciler) letGo(ctx context.Context, key export.Key, obj *sandbarv1alpha1.DevSession) error {
	left := slices.DeleteFunc(slices.Clone(obj.Finalizers), func(name string) bool { return name == finalizer })
	if err := r.writeMetadata(ctx, key, obj, map[string]any{"finalizers": left}); err != nil {
		return err
	}
	r.counts.drop(key)
	r.forget(key, groupOf(key, obj))
	return nil
}

// forget has the other sessions of the group looked at: one may have waited for the workload.
func (r *reconciler) forget(key, group export.Key) {
	r.known.drop(key)
	for _, other := range r.known.to(group) {
		r.wake(other)
	}
}
