// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package interception

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/pkg/intercept"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/platform"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/runtimecluster"
)

const (
	controllerName = "interception"
	// concurrency is how many Services are looked at at once.
	concurrency = 4
)

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// Options are what the controller needs in addition to the two clusters.
type Options struct {
	// RouteChanged is told of each SandboxRoute for which something else came of what it asks.
	RouteChanged func(export.Key)
}

// Register adds the controller to the manager of the provider workspace, which knows the image of the proxies. It returns the Store by which
// SandboxRoutes ask.
func Register(mgr ctrl.Manager, runtime *runtimecluster.Cluster, opts Options) (Store, error) {
	dyn, err := dynamic.NewForConfig(runtime.GetConfig())
	if err != nil {
		return Store{}, fmt.Errorf("connecting to the runtime cluster: %w", err)
	}
	var wakes atomic.Pointer[queue]
	w := newWatch(dyn)
	w.routeChanged = opts.RouteChanged
	w.wake = func(name types.NamespacedName) {
		if q := wakes.Load(); q != nil {
			(*q).Add(reconcile.Request{NamespacedName: name})
		}
	}
	begin := func(_ context.Context, q queue) error {
		wakes.Store(&q)
		w.start() // not before: what it tells of must not be lost
		return nil
	}
	every := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, provider client.Object) (all []reconcile.Request) {
		w.believe(logicalcluster.From(provider).String())
		for _, name := range w.all() {
			all = append(all, reconcile.Request{NamespacedName: name})
		}
		return all
	})
	err = ctrl.NewControllerManagedBy(mgr).
		Named(controllerName).
		Watches(&sandbarv1alpha1.InfrastructureProvider{}, every). // its image of the proxies, and where it is
		WatchesRawSource(source.Func(begin)).
		WithOptions(controller.Options{MaxConcurrentReconciles: concurrency}).
		Complete(&reconciler{
			cache: runtime.GetClient(), watch: w, reader: runtime.GetAPIReader(), writer: runtime.GetClient(), image: imageIn(mgr.GetClient(), runtime), counts: &counts{}, now: time.Now,
		})
	if err != nil {
		return Store{}, fmt.Errorf("building the controller of interceptions: %w", err)
	}
	if err := mgr.Add(manager.RunnableFunc(w.run)); err != nil {
		return Store{}, fmt.Errorf("adding the watches of interceptions: %w", err)
	}
	return Store{Reader: runtime.GetAPIReader(), Writer: runtime.GetClient(), watch: w}, nil
}

// imageIn returns the image of the proxies in what was accepted of the InfrastructureProvider last.
func imageIn(kcp client.Reader, runtime *runtimecluster.Cluster) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		provider := &sandbarv1alpha1.InfrastructureProvider{}
		err := kcp.Get(ctx, types.NamespacedName{Name: sandbarv1alpha1.InfrastructureProviderName}, provider)
		if apierrors.IsNotFound(err) {
			return "", nil
		}
		if err != nil {
			return "", fmt.Errorf("reading the InfrastructureProvider: %w", err)
		}
		settings, err := platform.Settings(ctx, runtime.GetClient(), runtime.Names, provider)
		if err != nil {
			return "", fmt.Errorf("reading the image of proxies: %w", err)
		}
		return settings.Images[intercept.Image], nil
	}
}
