// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

const (
	// retryFirst and retryMost bound the backoff of an instance whose reconcile fails: a
	// runtime cluster that comes back is used again within retryMost.
	retryFirst = 10 * time.Millisecond
	retryMost  = 30 * time.Second

	// informerTimeout bounds the wait for the runtime cluster's informer of a new kind.
	informerTimeout = 15 * time.Second
)

// isolationKinds are the kinds whose objects the provider puts into each placement; when
// somebody changes or deletes one, it is made right again.
func isolationKinds() []client.Object {
	return []client.Object{
		&corev1.Namespace{}, &corev1.Secret{}, &corev1.ResourceQuota{}, &corev1.LimitRange{}, &networkingv1.NetworkPolicy{},
		&coordinationv1.Lease{}, // its use, too
	}
}

// runner is the running controller of one kind.
type runner struct {
	kind       kind
	tenants    *tenants
	runtime    cluster.Cluster
	controller controller.TypedController[request]
	settings   atomic.Pointer[settings]
	lanes      *lanes
	queue      atomic.Pointer[queue]
	log        logr.Logger

	stopController context.CancelFunc
	stopped        chan struct{}
}

// runnerConfig is what all runners share.
type runnerConfig struct {
	kcp         *rest.Config
	runtime     cluster.Cluster
	concurrency int
	log         logr.Logger
	// failed is called when a controller ends without having been stopped.
	failed func(template string)
}

// startRunner starts the controller of a kind. It runs until close is called.
func startRunner(ctx context.Context, config runnerConfig, k kind, s settings) (*runner, error) {
	r := &runner{
		kind:    k,
		tenants: newTenants(k, config.kcp),
		runtime: config.runtime,
		lanes:   newLanes(),
		log:     config.log.WithValues("template", k.template, "kind", k.gvk.Kind),
		stopped: make(chan struct{}),
	}
	r.settings.Store(&s)
	if err := r.build(config.concurrency); err != nil {
		return nil, err
	}
	if err := r.watchRuntime(ctx); err != nil {
		r.removeInformer(ctx)
		return nil, err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	r.stopController = stop
	go func() {
		defer close(r.stopped)
		if err := r.controller.Start(running); err != nil && running.Err() == nil {
			r.log.Error(err, "the controller of a kind failed")
			config.failed(k.template)
		}
	}()
	return r, nil
}

func (r *runner) build(concurrency int) error {
	// Controllers of kinds come and go under the same name.
	skipNameValidation := true
	c, err := controller.NewTypedUnmanaged("instance-"+r.kind.resource, controller.TypedOptions[request]{
		SkipNameValidation:      &skipNameValidation,
		MaxConcurrentReconciles: concurrency,
		NewQueue:                r.lanes.newQueue,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[request](retryFirst, retryMost),
		LogConstructor: func(req *request) logr.Logger {
			if req == nil {
				return r.log
			}
			return r.log.WithValues("cluster", req.cluster, "namespace", req.Namespace, "name", req.Name)
		},
		Reconciler: &reconciler{
			kind:     r.kind,
			settings: func() settings { return *r.settings.Load() },
			tenants:  r.tenants,
			runtime:  runtimeCluster{client: r.runtime.GetClient(), live: r.runtime.GetAPIReader()},
			teller:   newTeller(r.tenants.record),
			now:      time.Now,
		},
	})
	if err != nil {
		return fmt.Errorf("building the controller of %s: %w", r.kind.gvk.Kind, err)
	}
	r.controller = c
	return c.Watch(source.TypedFunc[request](func(_ context.Context, q queue) error {
		r.queue.Store(&q)
		return nil
	}))
}

// watchRuntime wakes an instance when its kro instance (status comes back), one of the objects
// around it (drift, the end of a deletion) or what runs in it changes.
func (r *runner) watchRuntime(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, informerTimeout)
	defer cancel()
	for _, obj := range append(isolationKinds(), r.kind.newObject()) {
		if err := r.watchObjects(ctx, obj, requestForOwner(r.kind.template), always); err != nil {
			return err
		}
	}
	return r.watchObjects(ctx, &corev1.Pod{}, r.requestForPod, podMatters)
}

func (r *runner) watchObjects(ctx context.Context, obj client.Object, requestFor func(metav1.Object) (request, bool), matters func(before, after any) bool) error {
	informer, err := r.runtime.GetCache().GetInformer(ctx, obj)
	if err == nil {
		err = r.controller.Watch(watch(informer, r.lanes, requestFor, matters))
	}
	if err != nil {
		return fmt.Errorf("watching %T of the runtime cluster: %w", obj, err)
	}
	return nil
}

// follow makes the runner follow exactly the given endpoints of the APIExport.
func (r *runner) follow(ctx context.Context, urls []string) error {
	return r.tenants.follow(ctx, urls, func(e *endpoint) error {
		return r.controller.Watch(watch(e.informer, r.lanes, requestForTenant, always))
	})
}

// configure takes over what the operator says; a change makes every instance be looked at.
func (r *runner) configure(s settings) {
	if r.settings.Load().equal(s) {
		return
	}
	r.settings.Store(&s)
	q := r.queue.Load()
	if q == nil {
		return // not started: every instance is still to come
	}
	r.tenants.each(func(obj *unstructured.Unstructured) {
		if req, ok := requestForTenant(obj); ok {
			r.lanes.add(*q, req, true)
		}
	})
}

// ended tells whether the controller has stopped by itself.
func (r *runner) ended() bool {
	select {
	case <-r.stopped:
		return true
	default:
		return false
	}
}

// close stops the controller and everything that it watches, and waits for it.
func (r *runner) close(ctx context.Context) {
	r.stopController()
	<-r.stopped
	r.tenants.close()
	r.removeInformer(ctx)
}

// removeInformer stops watching the kro instances. The kind's CRD goes with its Template, and
// an informer without a CRD would fail for ever.
func (r *runner) removeInformer(ctx context.Context) {
	if err := r.runtime.GetCache().RemoveInformer(ctx, r.kind.newObject()); err != nil {
		r.log.Error(err, "could not remove the informer of a kind")
	}
}
