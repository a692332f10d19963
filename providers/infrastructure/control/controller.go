// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"errors"
	"fmt"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/runtimecluster"
)

const controllerName = "control-tokens"

// Options are the settings of the controller. The zero value is fit for use.
type Options struct {
	// RotationsPerSecond bounds how many placements get another token per second when the keys
	// change. Defaults to 20.
	RotationsPerSecond int
}

func (o Options) withDefaults() Options {
	if o.RotationsPerSecond == 0 {
		o.RotationsPerSecond = 20
	}
	return o
}

// Register adds to a manager what keeps the control Secrets of all placements. The runtime cluster
// (package runtimecluster) must be part of the same manager.
func Register(mgr ctrl.Manager, runtime *runtimecluster.Cluster, opts Options) error {
	p := placements{writer: Writer{Client: runtime.GetClient(), Live: runtime.GetAPIReader(), Names: runtime.Names}, kcp: mgr.GetClient()}
	if err := mgr.Add(newRotation(p, runtime.GetCache(), opts.withDefaults(), mgr.GetLogger().WithName(controllerName))); err != nil {
		return fmt.Errorf("adding the rotation of control tokens: %w", err)
	}
	if err := registerMetrics(runtime.GetClient(), runtime.Names); err != nil {
		return fmt.Errorf("registering the metrics of control tokens: %w", err)
	}
	ofPlacement := handler.TypedEnqueueRequestsFromMapFunc(func(_ context.Context, s *corev1.Secret) []reconcile.Request {
		if s.Name != placement.ControlSecret {
			return nil
		}
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: s.Namespace}}}
	})
	return ctrl.NewControllerManagedBy(mgr).
		Named(controllerName).
		WithOptions(controller.Options{MaxConcurrentReconciles: 4, UsePriorityQueue: new(bool)}).
		WatchesRawSource(source.Kind(runtime.GetCache(), &corev1.Secret{}, ofPlacement)).
		Complete(&reconciler{p})
}

// placements are those of this provider.
type placements struct {
	writer Writer
	// kcp reads the provider workspace.
	kcp client.Reader
}

// ours reports whether a namespace is a placement of this provider that is not on its way out. Those
// of another provider are never touched.
func (p placements) ours(ctx context.Context, ns *corev1.Namespace) (placement.ID, bool, error) {
	id, ok := placement.IDOf(ns)
	if !ok || ns.DeletionTimestamp != nil {
		return id, false, nil
	}
	provider := &sandbarv1alpha1.InfrastructureProvider{}
	err := p.kcp.Get(ctx, types.NamespacedName{Name: sandbarv1alpha1.InfrastructureProviderName}, provider)
	if apierrors.IsNotFound(err) {
		return id, false, nil
	}
	if err != nil {
		return id, false, fmt.Errorf("reading the InfrastructureProvider: %w", err)
	}
	return id, placement.ProviderOf(ns) == logicalcluster.From(provider).String(), nil
}

// reconciler mends the Secret of one placement.
type reconciler struct{ placements }

// Reconcile mends the Secret of a placement. A placement that is not complete yet, or goes, is not its
// concern: package instance makes the Secret before anything of a tenant's runs.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	ns := &corev1.Namespace{}
	if err := r.writer.Client.Get(ctx, req.NamespacedName, ns); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	id, ours, err := r.ours(ctx, ns)
	if err != nil || !ours {
		return reconcile.Result{}, err
	}
	err = r.writer.Ensure(ctx, metaOf(ns), id)
	if errors.Is(err, ErrTerminating) {
		return reconcile.Result{}, nil
	}
	if apierrors.IsConflict(err) {
		return reconcile.Result{Requeue: true}, nil // with the queue's backoff
	}
	return reconcile.Result{}, err
}

// metaOf is the metadata of the Secret of a placement: what its namespace says of the placement, and nothing
// of its owner.
func metaOf(ns *corev1.Namespace) metav1.ObjectMeta {
	meta := metav1.ObjectMeta{
		Namespace: ns.Name, Name: placement.ControlSecret, Labels: map[string]string{}, Annotations: map[string]string{},
	}
	for _, name := range []string{placement.LabelInstanceUID, placement.LabelCluster, placement.LabelTemplate, placement.LabelManagedBy} {
		if value, ok := ns.Labels[name]; ok {
			meta.Labels[name] = value
		}
	}
	if value, ok := ns.Annotations[placement.AnnotationProvider]; ok {
		meta.Annotations[placement.AnnotationProvider] = value
	}
	return meta
}
