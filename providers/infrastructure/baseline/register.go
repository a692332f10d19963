// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package baseline

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/runtimecluster"
)

const controllerName = "baseline"

// gather is how long changes on the runtime cluster are gathered before a Baseline is looked at: an application of fifty
// workloads that is deployed makes one write.
const gather = time.Second

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// wakes is the queue of the controller, for the watches that are not the manager's.
type wakes struct{ queue atomic.Pointer[queue] }

// start is the source of the controller.
func (w *wakes) start(_ context.Context, q queue) error {
	w.queue.Store(&q)
	return nil
}

// tell wakes Baselines, each at most once per gather.
func (w *wakes) tell(baselines []string) {
	q := w.queue.Load()
	if q == nil {
		return // nothing has been looked at yet, so nothing is to be looked at again
	}
	for _, name := range baselines {
		(*q).AddAfter(reconcile.Request{NamespacedName: types.NamespacedName{Name: name}}, gather)
	}
}

// Register adds the controller to a manager of the provider workspace, whose scheme must know sandbar.dev. It begins once
// the workspace serves Baselines to the controllers. changed is called then, and whenever a spec has come, changed or gone.
func Register(mgr ctrl.Manager, runtime *runtimecluster.Cluster, changed func()) error {
	dyn, err := dynamic.NewForConfig(runtime.GetConfig())
	if err != nil {
		return fmt.Errorf("connecting to the runtime cluster: %w", err)
	}
	w := &wakes{}
	s := newSources(dyn, w.tell)
	begin := func() error {
		return ctrl.NewControllerManagedBy(mgr).
			Named(controllerName).
			For(&sandbarv1alpha1.Baseline{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
			WatchesRawSource(source.Func(w.start)).
			Complete(&reconciler{kcp: mgr.GetClient(), sources: s, specs: newSpecs(changed)})
	}
	err = mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		if served(ctx, mgr.GetAPIReader(), tryAgain) {
			if err := begin(); err != nil {
				return err
			}
			changed()
		}
		return s.Start(ctx)
	}))
	if err != nil {
		return fmt.Errorf("adding the watches of Baselines: %w", err)
	}
	return nil
}

// tryAgain is how often a workspace is asked that does not serve Baselines.
const tryAgain = 30 * time.Second

// served waits until the provider workspace serves Baselines, and reports whether it does; false if ctx ends before.
// After an upgrade it does not until init has been run again, and a controller of a kind that is not served would end the
// process, with all sandboxes of all tenants in its care.
func served(ctx context.Context, kcp client.Reader, interval time.Duration) bool {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for said := false; ; said = true {
		err := kcp.List(ctx, &sandbarv1alpha1.BaselineList{}, client.Limit(1))
		if err == nil {
			return true
		}
		if !said {
			log.FromContext(ctx).Info("Baselines are not followed: run sandbar-provider init again", "error", err.Error())
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return false
		}
	}
}
