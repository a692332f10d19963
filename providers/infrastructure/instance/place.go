// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbar-dev/sandbar/pkg/inuse"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/control"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/frozen"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/lifecycle"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/place"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/platform"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/workload"
)

// fieldOwner owns what the provider writes, on both sides.
const fieldOwner = "sandbar"

// runtimeCluster is what the reconciler needs of the runtime cluster.
type runtimeCluster struct {
	// client reads from the cache and writes.
	client client.Client
	// live reads from the API server.
	live client.Reader
	// logs reads the end of a container's log.
	logs podLogs
	// env gives variables to pods that run.
	env deliverer
	// workloads reads the workloads of Baselines, copier copies what they refer to, and frozen keeps what was read.
	workloads workload.Reader
	copier    workload.Copier
	frozen    frozen.Store
}

func newRuntimeCluster(c client.Client, live client.Reader, logs podLogs, env deliverer) runtimeCluster {
	workloads := workload.Reader{Live: live}
	return runtimeCluster{
		client: c, live: live, logs: logs, env: env, workloads: workloads,
		copier: workload.Copier{Reader: workloads, Client: c, FieldOwner: fieldOwner},
		frozen: frozen.Store{Live: live, Client: c, FieldOwner: fieldOwner},
	}
}

// place makes the namespace with everything that isolates it. Nothing of a tenant's may run
// before all of it exists: the kro instance is made afterwards.
//
// It returns what the instance's Lease says of its use; zero until that has been read.
func (r *reconciler) place(ctx context.Context, s *scope.Scope) (used inuse.Record, err error) {
	ingress, err := place.BuildIngress(s)
	if err != nil {
		return used, err
	}
	egress, err := place.BuildEgress(s)
	if err != nil {
		return used, err
	}
	bounds, err := place.BoundsOf(s)
	if err != nil {
		return used, err
	}
	if err := r.placeNamespace(ctx, s); err != nil {
		return used, err
	}
	group, ctx := errgroup.WithContext(ctx)
	apply := func(desired, current client.Object) {
		group.Go(func() error { return r.runtime.apply(ctx, desired, current) })
	}
	apply(place.BuildQuota(s, bounds), &corev1.ResourceQuota{})
	apply(place.BuildLimits(s, bounds), &corev1.LimitRange{})
	apply(ingress, &networkingv1.NetworkPolicy{})
	apply(egress, &networkingv1.NetworkPolicy{})
	group.Go(func() (err error) {
		used, err = r.ensureLease(ctx, s)
		return err
	})
	group.Go(func() error { return r.runtime.ensureControlToken(ctx, s) })
	if s.Settings().WantsPassword {
		group.Go(func() error { return r.runtime.ensureSecret(ctx, s, place.Password) })
	}
	err = group.Wait() // used is written by then
	return used, err
}

// composed reads the kro instance from the API server; nil if there is none. A cache would hold it as
// the schema has it under which the cache's watch began, and that may not be the kind's any more.
func (c runtimeCluster) composed(ctx context.Context, s *scope.Scope) (*unstructured.Unstructured, error) {
	instance := s.NewComposed()
	err := c.live.Get(ctx, types.NamespacedName{Namespace: s.Placement().Namespace(), Name: s.Placement().InstanceName()}, instance)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the kro instance: %w", err)
	}
	return instance, nil
}

// unchanged is composed for a kro instance that was looked at before: as it was then, if the watch shows the same version of
// it. The watch holds metadata alone, so that a changed one is read.
func (c runtimeCluster) unchanged(ctx context.Context, s *scope.Scope, before *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if before != nil {
		shown := s.Kind().Composed().Metadata()
		err := c.client.Get(ctx, client.ObjectKeyFromObject(before), shown)
		if err == nil && shown.UID == before.GetUID() && shown.ResourceVersion == before.GetResourceVersion() {
			return before, nil
		}
	}
	return c.composed(ctx, s)
}

// placeNamespace makes the namespace, with the pod security level that it enforces. The admission
// policy of the runtime cluster knows the levels that an administrator of that cluster has allowed.
// A placement that exists keeps the level that it has: one edit in the provider workspace must not
// make every tenant's instance fail.
func (r *reconciler) placeNamespace(ctx context.Context, s *scope.Scope) error {
	current := &corev1.Namespace{}
	err := r.runtime.apply(ctx, place.BuildNamespace(s), current)
	if !platform.LevelRefused(err) {
		return err
	}
	if current.ResourceVersion != "" {
		return nil
	}
	return &outcome.LevelError{Level: s.PodSecurity()}
}

// compose makes the kro instance and returns it as it now is. A refused pod, or image, leaves the one
// that the instance has, if it has one, and the rest of the spec holds: suspended above all.
//
// current is the kro instance that there is, or nil. The turn says whether the instance takes
// a change of the operator, also with an error.
func (r *reconciler) compose(ctx context.Context, s *scope.Scope, current *unstructured.Unstructured, d lifecycle.Decision, made *outcome.Copies) (*unstructured.Unstructured, outcome.Turn, error) {
	desired, t := place.BuildInstance(s, d), outcome.Turn{}
	complete, refused := place.ChooseImage(s, current, desired)
	if complete && s.Pod() != nil {
		var err error
		if t, complete, err = r.composePod(ctx, s, current, desired); err != nil {
			refused = err // it may be one that a retry mends
		}
	}
	if made != nil {
		var err error
		if complete, err = place.PutCopies(s, current, desired, made, d); err != nil {
			return nil, t, err
		}
		refused = made.Refusal()
	}
	if !complete {
		return nil, t, refused
	}
	t = r.revise(s, t, current, desired)
	switch {
	case made != nil && made.Err != nil: // which a retry mends, and nothing is known of what was refused before
		keepRefusedMark(current, desired)
	case refused != nil:
		markRefused(s, desired)
	}
	switch {
	case current == nil:
	case current.GetDeletionTimestamp() != nil:
		return nil, t, fmt.Errorf("applying %s: %w", describe(desired), outcome.ErrTerminating)
	case !place.Differs(desired, current):
		return current, t, refused
	}
	if err := r.runtime.reshape(ctx, s.Settings().Conversions, current); err != nil {
		return nil, t, err
	}
	written, err := r.runtime.write(ctx, desired)
	if err != nil {
		return nil, t, err // it goes first: a refused pod needs no retry, and this does
	}
	return written, t, refused
}

// apply makes an object what it should be. It compares with the cache, reading into current, and
// writes only a difference.
func (c runtimeCluster) apply(ctx context.Context, desired, current client.Object) error {
	err := c.client.Get(ctx, client.ObjectKeyFromObject(desired), current)
	switch {
	case err == nil && current.GetDeletionTimestamp() != nil:
		return fmt.Errorf("applying %s: %w", describe(desired), outcome.ErrTerminating)
	case err == nil && !place.Differs(desired, current):
		return nil
	case err != nil && !apierrors.IsNotFound(err):
		return fmt.Errorf("reading %s: %w", describe(desired), err)
	}
	_, err = c.write(ctx, desired)
	return err
}

// write applies an object and returns the API server's answer.
func (c runtimeCluster) write(ctx context.Context, desired client.Object) (*unstructured.Unstructured, error) {
	config, err := place.ApplyConfiguration(desired)
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", describe(desired), err)
	}
	err = c.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(config),
		client.FieldOwner(fieldOwner), client.ForceOwnership)
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil, fmt.Errorf("applying %s: %w", describe(desired), outcome.ErrTerminating)
	}
	if err != nil {
		return nil, fmt.Errorf("applying %s: %w", describe(desired), err)
	}
	return config, nil
}

// describe names an object in an error.
func describe(obj client.Object) string {
	return obj.GetObjectKind().GroupVersionKind().Kind + " " + client.ObjectKeyFromObject(obj).String()
}

// ensureControlToken makes the Secret by which the data plane and the placement's pods know each other.
func (c runtimeCluster) ensureControlToken(ctx context.Context, s *scope.Scope) error {
	err := control.Writer{Client: c.client, Live: c.live, Names: s.Names()}.Ensure(ctx, s.ObjectMeta(placement.ControlSecret), s.Placement().ID)
	if errors.Is(err, control.ErrTerminating) {
		return fmt.Errorf("%w: %w", outcome.ErrTerminating, err)
	}
	return err
}

// ensureSecret makes a Secret with a value of the provider's once and never changes a value that
// is there.
func (c runtimeCluster) ensureSecret(ctx context.Context, s *scope.Scope, g place.Generated) error {
	secret, current := g.Build(s), &corev1.Secret{}
	reader := client.Reader(c.client)
	if g == place.Password {
		reader = c.live // the cache may hold the Secrets of one name, see package runtimecluster
	}
	err := reader.Get(ctx, client.ObjectKeyFromObject(secret), current)
	if apierrors.IsNotFound(err) {
		err = c.client.Create(ctx, secret, client.FieldOwner(fieldOwner))
		switch {
		case err == nil:
			return nil
		case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
			return fmt.Errorf("creating Secret %s: %w", g.Secret, outcome.ErrTerminating)
		case !apierrors.IsAlreadyExists(err):
			return fmt.Errorf("creating Secret %s: %w", g.Secret, err)
		}
		// The cache sees labelled Secrets only, and it may lag: ask for what there is.
		err = c.live.Get(ctx, client.ObjectKeyFromObject(secret), current)
	}
	if err != nil {
		return fmt.Errorf("reading Secret %s: %w", g.Secret, err)
	}
	return c.repairSecret(ctx, g, secret, current)
}

// repairSecret gives a Secret its labels back, and a value if it has none.
func (c runtimeCluster) repairSecret(ctx context.Context, g place.Generated, desired, current *corev1.Secret) error {
	hasValue := len(current.Data[g.Key]) > 0
	if hasValue && !place.Differs(desired, current) {
		return nil
	}
	repaired := current.DeepCopy()
	repaired.Labels = labels.Merge(current.Labels, desired.Labels)
	repaired.Annotations = labels.Merge(current.Annotations, desired.Annotations)
	if !hasValue {
		repaired.Data = desired.Data
	}
	if err := c.client.Patch(ctx, repaired, client.MergeFrom(current), client.FieldOwner(fieldOwner)); err != nil {
		return fmt.Errorf("repairing Secret %s: %w", g.Secret, err)
	}
	return nil
}
