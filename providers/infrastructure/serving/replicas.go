// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package serving

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/inuse"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/runtimecluster"
)

const (
	// lookEvery is how often the API server is asked for the Leases. No event tells that a renewal is
	// missing, and each answer brings the API server's time.
	lookEvery = 5 * time.Second
	// lookTimeout bounds one look, so that an API server that hangs is asked again.
	lookTimeout = 10 * time.Second
	// recent is how old a look may be that an instance is decided by at first.
	recent = 3 * lookEvery
)

// anewEvery is how often the start of unused time is moved while it has to start anew.
const anewEvery = 15 * time.Second

const fieldOwner = client.FieldOwner("sandbar-controllers")

// Replicas answers whether instances may be taken for being unused.
type Replicas struct {
	judge  inuse.Judge
	clock  *inuse.Clock
	client client.Client
	live   client.Reader
	// names are those of what the provider has on the runtime cluster.
	names placement.Names
	log   logr.Logger
	// changed is told when the verdict's cause or replica is another than before.
	changed chan event.GenericEvent

	// mu guards what follows.
	mu     sync.Mutex
	last   *inuse.Verdict
	looked time.Time
}

// New makes Replicas that write through c and read the API server through live. clock must hear of the
// runtime cluster.
func New(c client.Client, live client.Reader, clock *inuse.Clock, log logr.Logger) *Replicas {
	return &Replicas{clock: clock, client: c, live: live, log: log, changed: make(chan event.GenericEvent, 1)}
}

// Register adds Replicas to a manager that the runtime cluster is part of, and their metrics.
func Register(mgr ctrl.Manager, runtime *runtimecluster.Cluster, clock *inuse.Clock) (*Replicas, error) {
	r := New(runtime.GetClient(), runtime.GetAPIReader(), clock, mgr.GetLogger().WithName("replicas"))
	r.names = runtime.Names
	if err := mgr.Add(r); err != nil {
		return nil, fmt.Errorf("adding the watch of the data plane's replicas: %w", err)
	}
	return r, registerMetrics(r)
}

// Clock is the clock by which the controllers judge and record.
func (r *Replicas) Clock() *inuse.Clock { return r.clock }

// Recent judges by a look that is a moment old, and is there for each instance to ask.
func (r *Replicas) Recent(ctx context.Context) (inuse.Verdict, error) {
	r.mu.Lock()
	last, looked := r.last, r.looked
	r.mu.Unlock()
	if last != nil && r.clock.Now().Sub(looked) < recent {
		return *last, nil
	}
	return r.Look(ctx)
}

// Look judges by what the API server says now.
func (r *Replicas) Look(ctx context.Context) (inuse.Verdict, error) {
	var leases coordinationv1.LeaseList
	if err := r.live.List(ctx, &leases, client.InNamespace(r.names.SystemNamespace())); err != nil {
		return inuse.Verdict{}, fmt.Errorf("listing the Leases of the data plane's replicas: %w", err)
	}
	return r.judge.Look(leases.Items, r.clock), nil
}

// Last returns the verdict of the last look; false before the first.
func (r *Replicas) Last() (inuse.Verdict, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == nil {
		return inuse.Verdict{}, false
	}
	return *r.last, true
}

// Changed is sent to when what Last says has another cause, or is about another replica.
func (r *Replicas) Changed() <-chan event.GenericEvent { return r.changed }

// Start implements manager.Runnable: it looks until the context ends.
func (r *Replicas) Start(ctx context.Context) error {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for failing := false; ; {
		err := r.watch(ctx)
		if err != nil && !failing && ctx.Err() == nil {
			r.log.Error(err, "could not look at the data plane's replicas: it is tried again")
		}
		failing = err != nil
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// watch looks once, and does what the verdict wants done.
func (r *Replicas) watch(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	verdict, err := r.Look(ctx)
	if err != nil {
		return err
	}
	r.note(verdict)
	if verdict.Anew {
		if err := r.startAnew(ctx); err != nil {
			return err
		}
	}
	for _, lease := range verdict.Forget {
		if err := r.forget(ctx, lease); err != nil {
			return err
		}
	}
	return nil
}

// note keeps a verdict for later questions.
func (r *Replicas) note(verdict inuse.Verdict) {
	r.mu.Lock()
	defer r.mu.Unlock()
	isNew := r.last == nil || r.last.Cause != verdict.Cause || r.last.Replica != verdict.Replica
	r.last, r.looked = &verdict, r.clock.Now()
	if !isNew {
		return
	}
	if verdict.Cause != "" {
		r.log.Info("unused instances are not taken", "cause", verdict.Cause, "replica", verdict.Replica, "sleep", verdict.Sleep, "delete", verdict.Delete)
	} else {
		r.log.Info("unused instances are put to sleep and deleted as their lifecycles say")
	}
	provider := &sandbarv1alpha1.InfrastructureProvider{}
	provider.Name = sandbarv1alpha1.InfrastructureProviderName
	select {
	case r.changed <- event.GenericEvent{Object: provider}:
	default: // one waits already
	}
}

// startAnew has time count as unused from this moment. The later clock says when that is: an earlier
// moment would let time count that was not observed.
func (r *Replicas) startAnew(ctx context.Context) error {
	lease := &coordinationv1.Lease{}
	key := client.ObjectKey{Namespace: r.names.SystemNamespace(), Name: placement.DataPlaneLease}
	if err := r.client.Get(ctx, key, lease); err != nil {
		return client.IgnoreNotFound(err) // without it no time counts anyway
	}
	now := r.clock.Later()
	if since := lease.Spec.AcquireTime; since != nil && now.Sub(since.Time).Abs() < anewEvery {
		return nil
	}
	moved := lease.DeepCopy()
	moved.Spec.AcquireTime = &metav1.MicroTime{Time: now}
	if err := r.client.Patch(ctx, moved, client.MergeFrom(lease), fieldOwner); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing Lease %s: %w", key.Name, err)
	}
	return nil
}

// forget deletes the Lease of a replica that is gone, if it still is as it was seen.
func (r *Replicas) forget(ctx context.Context, lease *coordinationv1.Lease) error {
	err := r.client.Delete(ctx, lease, client.Preconditions{UID: &lease.UID, ResourceVersion: &lease.ResourceVersion})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil
	case err != nil:
		return fmt.Errorf("deleting the Lease %s of a replica that is gone: %w", lease.Name, err)
	}
	r.log.Info("a replica of the data plane is given up: it has not renewed its Lease for long", "lease", lease.Name, "after", inuse.GivenUpAfter)
	return nil
}
