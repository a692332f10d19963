// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/compound"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/events"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/members"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/serving"
)

// informerTimeout bounds the wait for the runtime cluster's informer of a new kind.
const informerTimeout = 15 * time.Second

// runner is the running controller of one kind.
type runner struct {
	*export.Controller

	kind     scope.Kind
	runtime  cluster.Cluster
	settings atomic.Pointer[scope.Settings]
	capacity *capacity
	// placements tell whose an object of the runtime cluster is.
	placements *dispatcher
	// instances reconciles them.
	instances *reconciler
	// events are written until stopEvents is called.
	events     *events.Queue
	stopEvents func()
	log        logr.Logger
}

// runnerConfig is what all runners share.
type runnerConfig struct {
	kcp         *rest.Config
	runtime     cluster.Cluster
	names       placement.Names
	replicas    *serving.Replicas
	concurrency int
	rollouts    rollouts
	templates   SandboxTemplates
	log         logr.Logger
	// logs reads the end of a container's log.
	logs     podLogs
	capacity *capacity
	// placements tell whose an object of the runtime cluster is.
	placements *dispatcher
	members    *members.Members
	sandboxes  *Sandboxes
	// patched are shared: sets and Sandboxes are of one kind.
	patched *patchedBases
	// env gives variables to pods, and deliveries are those of this process.
	env        deliverer
	deliveries *deliveries
	// parts are the instances of a Template, and partChanged is told of each that comes, changes or goes, or whose status does.
	parts       func(template string) (compound.Parts, bool)
	partChanged func(template string, part request)
	// builtIn are the objects of a built-in kind.
	builtIn     func(kind string) (compound.Parts, bool)
	corrections *corrections
	// developed is told of each DevSession of a group after a look at the group.
	developed func(group, session request)
	// failed is called when a controller ends without having been stopped.
	failed func(template string)
}

// startRunner starts the controller of a kind. It runs until close is called.
func startRunner(ctx context.Context, config runnerConfig, k scope.Kind, s scope.Settings) (*runner, error) {
	r := &runner{
		kind:       k,
		runtime:    config.runtime,
		capacity:   config.capacity,
		placements: config.placements,
		log:        config.log.WithValues("template", k.Template, "kind", k.GVK.Kind),
	}
	s.Computed, s.Since = scope.NewComputed(), time.Now()
	r.settings.Store(&s)
	var err error
	r.Controller, err = export.NewController(k.Kind, export.ControllerOptions{
		Name: "instance-" + k.Resource, Concurrency: config.concurrency, Config: config.kcp, FieldManager: fieldOwner, Log: r.log,
		Retried: func() { endpointRetriesTotal.WithLabelValues(k.Template).Inc() },
		Failed:  func() { config.failed(k.Template) },
		Changed: func(obj metav1.Object) {
			config.sandboxes.seen(logicalcluster.From(obj).String(), obj)
			if req, ok := export.KeyOf(obj); ok {
				config.partChanged(k.Template, req)
			}
		},
	}, func(c *export.Controller) reconcile.TypedReconciler[request] { return r.reconciler(config, c) })
	if err != nil {
		return nil, err
	}
	if err := r.watchInstances(ctx); err != nil {
		r.Close()
		r.removeInformer(ctx)
		return nil, err
	}
	r.capacity.follow(k.Template, r.candidates)
	r.stopEvents = r.writeEvents(ctx)
	r.Start(ctx)
	return r, nil
}

// writeEvents writes the events of instances until stop is called, which waits for the end.
func (r *runner) writeEvents(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.events.Run(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

func (r *runner) reconciler(config runnerConfig, c *export.Controller) *reconciler {
	r.events = events.NewQueue(events.NewRecorder(c.Objects.Record, eventsTotal))
	r.instances = &reconciler{
		kind:       r.kind,
		settings:   func() scope.Settings { return *r.settings.Load() },
		tenants:    c.Objects,
		runtime:    newRuntimeCluster(r.runtime.GetClient(), r.runtime.GetAPIReader(), config.logs, config.env),
		events:     r.events,
		rollouts:   config.rollouts,
		templates:  config.templates,
		wake:       func(req request) { c.Wake(req, false) },
		words:      newWords(),
		replicas:   config.replicas,
		now:        config.replicas.Clock().Earlier,
		capacity:   r.capacity,
		members:    config.members,
		sandboxes:  config.sandboxes,
		patched:    config.patched,
		deliveries: config.deliveries,
		parts:      config.parts, partChanged: func(req request) { config.partChanged(r.kind.Template, req) },
		builtIn:     config.builtIn,
		corrections: config.corrections,
		developed:   config.developed,
	}
	return r.instances
}

// watchInstances wakes an instance when its kro instance changes. Only metadata is watched: a copy of
// the whole would go on as the schema that the watch began with has it, also after the kind's schema
// has changed; what a reconcile needs it reads from the API server.
func (r *runner) watchInstances(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, informerTimeout)
	defer cancel()
	informer, err := r.runtime.GetCache().GetInformer(ctx, r.kind.Composed().Metadata())
	if err != nil {
		return fmt.Errorf("watching %s of the runtime cluster: %w", r.kind.Resource, err)
	}
	_, err = informer.AddEventHandler(export.OnEvents(func(obj metav1.Object, initial, gone bool) {
		if o, ok := r.placements.ownerOf(obj, gone); ok && o.template == r.kind.Template {
			r.placements.tell(o, initial)
		}
	}, always))
	if err != nil {
		return fmt.Errorf("watching %s of the runtime cluster: %w", r.kind.Resource, err)
	}
	return nil
}

// wakePlaced wakes everything that has a placement, also what its tenant's workspace shows no more.
func (r *runner) wakePlaced(ctx context.Context) error {
	var list corev1.NamespaceList
	err := r.runtime.GetClient().List(ctx, &list, client.MatchingLabels{placement.LabelTemplate: r.kind.Template}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return fmt.Errorf("listing the placements of %s: %w", r.kind.Resource, err)
	}
	for i := range list.Items {
		if o, ok := ownerOfPlacement(&list.Items[i]); ok && o.member != "" {
			r.placements.tell(o, true)
		} else if ok {
			r.Wake(o.req, true)
		}
	}
	return nil
}

// configure takes over what the operator says; a change makes every instance be looked at.
func (r *runner) configure(s scope.Settings) {
	if r.settings.Load().Equal(s) {
		return
	}
	s.Computed, s.Since = scope.NewComputed(), time.Now()
	r.settings.Store(&s)
	r.WakeAll()
}

// close stops the controller and everything that it watches, and waits for it.
func (r *runner) close(ctx context.Context) {
	r.Close()
	r.stopEvents()
	r.capacity.follow(r.kind.Template, nil)
	r.removeInformer(ctx)
}

// removeInformer stops watching the kro instances. The kind's CRD goes with its Template, and
// an informer without a CRD would fail for ever.
func (r *runner) removeInformer(ctx context.Context) {
	if err := r.runtime.GetCache().RemoveInformer(ctx, r.kind.Composed().Metadata()); err != nil {
		r.log.Error(err, "could not remove the informer of a kind")
	}
}
