// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package devsession

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/sandbar-dev/sandbar/apis/builtin"
	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/clone"
	"github.com/sandbar-dev/sandbar/pkg/devsession"
	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance"
)

// ownerKind is the kind of the objects that have copies.
const ownerKind = builtin.SandboxGroup

// refusedOf is why there is no session, or an error that a retry mends.
func refusedOf(err error) (*devsession.RefusedError, error) {
	var refused *devsession.RefusedError
	if errors.As(err, &refused) {
		return refused, nil
	}
	return nil, err
}

// errUnknownYet means that nobody can tell now what there is of a session that was made before: the provider has just started, or
// somebody has deleted what was noted. Its status stays.
var errUnknownYet = errors.New("what there is of the session is not known yet")

// isGone reports whether an error proves that the group of a name is gone. One about another object of the runtime cluster proves
// nothing, and a session that was deleted for it would take the workspace with it.
func isGone(err error, group string) bool {
	var status apierrors.APIStatus
	return export.IsGone(err) && errors.As(err, &status) && status.Status().Details.Name == group
}

// work reads the group of a session. The error is a *devsession.RefusedError, errUnknownYet, or one that a retry mends.
func (r *reconciler) work(ctx context.Context, key export.Key, obj *sandbarv1alpha1.DevSession) (*instance.GroupWork, error) {
	name := obj.Spec.SandboxRef.Name
	work, err := r.groups.Work(ctx, groupOf(key, obj))
	switch unknown := errors.Is(err, instance.ErrNoKind) || errors.Is(err, instance.ErrNotPlaced); {
	case unknown && obj.Status.DeploymentName != "":
		return nil, errUnknownYet
	case errors.Is(err, instance.ErrNoKind):
		return nil, devsession.Refuse(sandbarv1alpha1.DevSessionProviderUnavailable, "the provider offers no SandboxGroups, or does not follow them yet; if this lasts, ask the operator")
	case isGone(err, name):
		return nil, devsession.Refuse(sandbarv1alpha1.DevSessionSandboxNotFound, "spec.sandboxRef.name: namespace %s has neither a Sandbox with workloads nor a SandboxGroup %s", key.Namespace, name)
	case errors.Is(err, instance.ErrNotPlaced):
		return nil, devsession.Refuse(sandbarv1alpha1.DevSessionNotReady, "spec.sandboxRef.name: %s has no copies yet; its status says why", name)
	case err != nil:
		return nil, fmt.Errorf("reading SandboxGroup %s: %w", name, err)
	case work.Group.GetDeletionTimestamp() != nil:
		return nil, devsession.Refuse(sandbarv1alpha1.DevSessionNotReady, "spec.sandboxRef.name: %s is being deleted", name)
	}
	return work, nil
}

// admit refuses a record of which no session can be made. recorded says that the placement has one of it already.
func (r *reconciler) admit(ctx context.Context, record devsession.Record, recorded bool, work *instance.GroupWork) error {
	spec := &record.Spec
	made := work.Copies[spec.Workload]
	switch {
	case !slices.Contains(work.Components, spec.Workload):
		return devsession.Refuse(sandbarv1alpha1.DevSessionWorkloadNotFound, "spec.workload: %s has no workload %s; it has %s", spec.SandboxRef.Name, spec.Workload, strings.Join(work.Components, ", "))
	case work.Baseline == nil:
		return devsession.Refuse(sandbarv1alpha1.DevSessionNotAllowed, "spec.sandboxRef.name: the Baseline of %s is not for this workspace any more: ask the operator", spec.SandboxRef.Name)
	case made == nil:
		return devsession.Refuse(sandbarv1alpha1.DevSessionNotReady, "spec.workload: %s has no copy yet; the status of %s says why", spec.Workload, spec.SandboxRef.Name)
	}
	if _, err := devsession.Render(devsession.Input{Record: record, Component: spec.Workload, Copy: made, RunnerImage: work.RunnerImage}); err != nil {
		return err //nolint:wrapcheck // it says what to do
	}
	if err := admitImage(spec, made, work); err != nil {
		return err
	}
	if recorded {
		return nil
	}
	return r.room(ctx, spec, work)
}

// admitImage refuses an image that the Baseline does not admit in overrides either.
func admitImage(spec *sandbarv1alpha1.DevSessionSpec, made *clone.Rendered, work *instance.GroupWork) error {
	frozen, ok := work.Kept.Components[spec.Workload]
	if spec.Image == "" || !ok || frozen.Snapshot == nil {
		return nil
	}
	container := spec.ContainerName
	if container == "" {
		container = made.Deployment.Spec.Template.Spec.Containers[0].Name
	}
	rules := clone.Rules{Baseline: work.Baseline.Name, Images: work.Baseline.Spec.Images}
	err := clone.AdmitImage(rules, &frozen.Snapshot.Template, "spec.image", container, spec.Image)
	var refused *clone.RefusedError
	if errors.As(err, &refused) {
		reason := sandbarv1alpha1.DevSessionInvalidSpec
		if refused.Reason == clone.NotAllowed {
			reason = sandbarv1alpha1.DevSessionNotAllowed
		}
		return &devsession.RefusedError{Reason: reason, Message: refused.Message}
	}
	return err //nolint:wrapcheck // it says what it is about
}

// room refuses a volume for which the quota of the placement has no room. kro would tell it of the whole group.
func (r *reconciler) room(ctx context.Context, spec *sandbarv1alpha1.DevSessionSpec, work *instance.GroupWork) error {
	quotas, err := r.runtime.quotas(ctx, work.ObjectMeta("").Namespace)
	if err != nil {
		return err
	}
	asked := map[corev1.ResourceName]resource.Quantity{
		corev1.ResourceRequestsStorage: devsession.Size(&spec.Storage), corev1.ResourcePersistentVolumeClaims: *resource.NewQuantity(1, resource.DecimalSI),
	}
	for i := range quotas {
		for _, name := range []corev1.ResourceName{corev1.ResourceRequestsStorage, corev1.ResourcePersistentVolumeClaims} {
			hard, bounded := quotas[i].Status.Hard[name]
			used := quotas[i].Status.Used[name]
			sum, more := used.DeepCopy(), asked[name]
			if sum.Add(more); bounded && sum.Cmp(hard) > 0 {
				return devsession.Refuse(sandbarv1alpha1.DevSessionQuotaExceeded, "spec.storage: the quota of the Sandbox's placement has no room for the volume: %s %s more, with %s of %s used; choose a smaller size, or ask the operator",
					name, more.String(), used.String(), hard.String())
			}
		}
	}
	return nil
}
