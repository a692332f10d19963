// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package export

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// reconcileRetryFirst and reconcileRetryMost bound the backoff of an object whose reconcile fails: a
	// server that comes back is used again within reconcileRetryMost.
	reconcileRetryFirst = 10 * time.Millisecond
	reconcileRetryMost  = 30 * time.Second

	// ReconcileTimeout bounds a reconcile of a followed kind's object, so that a server that hangs keeps no worker for long.
	ReconcileTimeout = time.Minute
)

// ControllerOptions are what a Controller needs besides its kind.
type ControllerOptions struct {
	// Name is that of the controller in its metrics.
	Name string
	// Concurrency is how many objects are reconciled at once.
	Concurrency int
	// Config has the provider's identity. Its host is replaced by the URLs of the endpoint slice.
	Config *rest.Config
	// FieldManager is the name under which objects are written.
	FieldManager string
	// Retried is called each time that a shard which cannot be followed is tried again.
	Retried func()
	// Changed, if set, is told of each object that comes, changes in a way that matters, or goes.
	Changed func(obj metav1.Object)
	// Failed is called when the controller ends without having been stopped.
	Failed func()
	Log    logr.Logger
}

// Controller reconciles the objects of one kind in all workspaces, on all shards, from Start until Close.
// It gives each workspace its share of the workers.
type Controller struct {
	// Objects are those of the kind. They are followed from the first Objects.Follow until Close.
	Objects *Objects

	options    ControllerOptions
	fair       *fairQueue
	queue      queue
	controller controller.TypedController[Key]

	stop    context.CancelFunc // nil before Start
	stopped chan struct{}
}

// NewController returns a controller that has not started. It must be closed, started or not. The
// reconciler is made by a function, which is given the kind's objects and the controller that wakes them.
func NewController(kind Kind, options ControllerOptions, newReconciler func(*Controller) reconcile.TypedReconciler[Key]) (*Controller, error) {
	c := &Controller{options: options, stopped: make(chan struct{})}
	c.Objects = NewObjects(kind, Options{
		Config: options.Config, FieldManager: options.FieldManager, Changed: c.shown, Retried: options.Retried, Log: options.Log,
	})
	c.fair, c.queue = newQueue(options.Name, options.Concurrency,
		workqueue.NewTypedItemExponentialFailureRateLimiter[Key](reconcileRetryFirst, reconcileRetryMost))
	// Controllers of kinds come and go under the same name.
	skipNameValidation := true
	var err error
	c.controller, err = controller.NewTypedUnmanaged(options.Name, controller.TypedOptions[Key]{
		SkipNameValidation:      &skipNameValidation,
		MaxConcurrentReconciles: options.Concurrency,
		ReconciliationTimeout:   ReconcileTimeout,
		NewQueue:                func(string, workqueue.TypedRateLimiter[Key]) queue { return c.queue },
		LogConstructor:          c.logFor,
		Reconciler:              newReconciler(c),
	})
	if err != nil {
		c.queue.ShutDown() // it has goroutines of its own
		return nil, fmt.Errorf("building the controller of %s: %w", kind.GVK.Kind, err)
	}
	return c, nil
}

func (c *Controller) logFor(key *Key) logr.Logger {
	if key == nil {
		return c.options.Log
	}
	return c.options.Log.WithValues("cluster", key.Cluster, "namespace", key.Namespace, "name", key.Name)
}

// Start starts the workers. They run until Close, also when ctx ends: of ctx only the values count.
func (c *Controller) Start(ctx context.Context) {
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	c.stop = stop
	go func() {
		defer close(c.stopped)
		if err := c.controller.Start(running); err != nil && running.Err() == nil {
			c.options.Log.Error(err, "the controller of a kind failed")
			c.options.Failed()
		}
	}()
}

// Wake has an object reconciled, whether a watch has shown it or not. One that may wait stands behind all
// others.
func (c *Controller) Wake(key Key, mayWait bool) {
	if mayWait {
		c.fair.addPatient(key)
		return
	}
	c.queue.Add(key)
}

// WakeAll has every object reconciled that the watches have shown.
func (c *Controller) WakeAll() {
	c.Objects.Each(func(obj metav1.Object) { c.changed(obj, true) })
}

// changed has an object reconciled.
func (c *Controller) changed(obj metav1.Object, initial bool) {
	if key, ok := KeyOf(obj); ok {
		c.Wake(key, initial)
	}
}

// shown is called for each change of an object that the watches show.
func (c *Controller) shown(obj metav1.Object, initial bool) {
	c.changed(obj, initial)
	if c.options.Changed != nil {
		c.options.Changed(obj)
	}
}

// Ended reports whether the controller has stopped by itself.
func (c *Controller) Ended() bool {
	select {
	case <-c.stopped:
		return true
	default:
		return false
	}
}

// Close stops the workers and then the watches, and waits until no goroutine of them is left.
func (c *Controller) Close() {
	if c.stop == nil {
		c.queue.ShutDown() // it has goroutines of its own
		return
	}
	c.stop()
	<-c.stopped
	c.Objects.Close()
}
