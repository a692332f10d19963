// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	kcpapisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	kcpapisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/pkg/inuse"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/compound"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/latebinding"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/members"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/rollout"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/runtimecluster"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/serving"
)

const (
	defaultExportName  = "sandbar.dev"
	defaultConcurrency = 10

	// kindRetryFirst and kindRetryMost bound the backoff of a kind whose controller cannot be started.
	kindRetryFirst = 100 * time.Millisecond
	kindRetryMost  = 10 * time.Second

	// pendingRestarts is how many failed kinds may wait to be started again before the next
	// one has to wait itself.
	pendingRestarts = 64
)

// Options are the settings of the instance controllers. The zero value is fit for use.
type Options struct {
	// KCPConfig reaches kcp with the provider's identity. Its host is replaced by the URLs of
	// the APIExportEndpointSlice. Defaults to the manager's configuration.
	KCPConfig *rest.Config

	// ExportName is the name of the APIExport and of its endpoint slice in the provider
	// workspace. Defaults to "sandbar.dev".
	ExportName string

	// Replicas says whether instances may be taken for being unused. Defaults to one of its own.
	Replicas *serving.Replicas

	// MaxConcurrentReconciles is how many instances of one kind are reconciled at once.
	// Defaults to 10.
	MaxConcurrentReconciles int

	// Rollouts grants instances the turn to take a change of the operator.
	Rollouts *rollout.Tracker

	// Templates reads tenants' SandboxTemplates.
	Templates SandboxTemplates

	// Kinds are those that run. Defaults to kinds of which no placement is a set's.
	Kinds *Kinds

	// BuiltIn returns the objects of a built-in kind, and false while nobody follows them: compound instances have parts of such
	// kinds. Defaults to none that is followed.
	BuiltIn func(kind string) (compound.Parts, bool)

	// Members are those of sets, which were given Kinds. Defaults to some that no set has.
	Members *members.Members
}

func (o Options) withDefaults(mgr ctrl.Manager) Options {
	if o.KCPConfig == nil {
		o.KCPConfig = mgr.GetConfig()
	}
	o.ExportName = cmp.Or(o.ExportName, defaultExportName)
	if o.BuiltIn == nil {
		o.BuiltIn = func(string) (compound.Parts, bool) { return nil, false }
	}
	o.MaxConcurrentReconciles = cmp.Or(o.MaxConcurrentReconciles, defaultConcurrency)
	return o
}

// Register adds the controllers of all kinds to the manager of the provider
// workspace. The runtime cluster (package runtimecluster) must be added to the same manager.
func Register(mgr ctrl.Manager, runtime *runtimecluster.Cluster, opts Options) error {
	opts = opts.withDefaults(mgr)
	if opts.Replicas == nil {
		var err error
		if opts.Replicas, err = serving.Register(mgr, runtime, &inuse.Clock{}); err != nil {
			return err
		}
	}
	if opts.Kinds == nil {
		opts.Kinds = NewKinds("", func(export.Key) {}, func(export.Key) {})
	}
	if opts.Members == nil {
		var err error
		if opts.Members, err = members.Register(mgr, runtime, opts.Kinds, func(export.Key) {}); err != nil {
			return err
		}
	}
	for _, add := range []func() error{
		func() error { return sandbarv1alpha1.AddToScheme(mgr.GetScheme()) },
		func() error { return kcpapisv1alpha1.AddToScheme(mgr.GetScheme()) },
		func() error { return kcpapisv1alpha2.AddToScheme(mgr.GetScheme()) },
		func() error {
			return runtime.GetFieldIndexer().IndexField(context.Background(), &corev1.Namespace{}, ownerIndex, indexOwner)
		},
		func() error { return registerKinds(mgr, runtime, opts) },
		func() error { return registerRuntimeMetrics(mgr.GetClient(), runtime) },
	} {
		if err := add(); err != nil {
			return fmt.Errorf("registering the instance controllers: %w", err)
		}
	}
	return nil
}

func registerKinds(mgr ctrl.Manager, runtime *runtimecluster.Cluster, opts Options) error {
	k := opts.Kinds
	k.client, k.exportName = mgr.GetClient(), opts.ExportName
	logs, err := logsOf(runtime.GetConfig())
	if err != nil {
		return err
	}
	env, err := latebinding.New(runtime.GetConfig())
	if err != nil {
		return err
	}
	placements := newDispatcher(k.wake, opts.Members.Wake)
	placements.ours = madeBy(context.Background(), members.ProviderOf(k.client))
	k.config = runnerConfig{
		logs:        logs,
		capacity:    newCapacity(),
		kcp:         opts.KCPConfig,
		runtime:     runtime,
		names:       runtime.Names,
		replicas:    opts.Replicas,
		concurrency: opts.MaxConcurrentReconciles,
		rollouts:    opts.Rollouts,
		templates:   opts.Templates,
		log:         mgr.GetLogger().WithName("instance"),
		placements:  placements,
		members:     opts.Members,
		sandboxes:   k.sandboxes,
		patched:     newPatchedBases(),
		env:         env,
		deliveries:  newDeliveries(),
		parts:       k.partsOf,
		partChanged: k.partChanged,
		builtIn:     opts.BuiltIn,
		corrections: newCorrections(),
		developed:   k.groups.developed,
		failed:      k.failed,
	}
	if err := mgr.Add(k); err != nil {
		return err
	}
	if err := placements.watch(context.Background(), runtime.GetCache()); err != nil {
		return err
	}
	return builder.ControllerManagedBy(mgr).
		Named("instance-kinds").
		For(&sandbarv1alpha1.Template{}).
		// A kind with a pod template follows the Templates that offer one.
		Watches(&sandbarv1alpha1.Template{}, handler.EnqueueRequestsFromMapFunc(k.everyPodKind)).
		// A compound kind follows the Template of its parts.
		Watches(&sandbarv1alpha1.Template{}, handler.EnqueueRequestsFromMapFunc(k.everyCompoundKind)).
		// A kind of copies follows the Baselines, but for what is found of them on the runtime cluster.
		WatchesRawSource(source.Channel(k.baselines, handler.EnqueueRequestsFromMapFunc(k.everyCloneKind))).
		// Its address, isolation and quota are part of every placement.
		Watches(&sandbarv1alpha1.InfrastructureProvider{}, handler.EnqueueRequestsFromMapFunc(k.everyTemplate)).
		// Those of its settings that count are in a ConfigMap on the runtime cluster.
		WatchesRawSource(source.Kind[client.Object](runtime.GetCache(), &corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(k.everyTemplate))).
		// Shards come and go with the first and the last binding on them.
		Watches(&kcpapisv1alpha1.APIExportEndpointSlice{}, handler.EnqueueRequestsFromMapFunc(k.everyTemplate)).
		// A controller that ended by itself is started again.
		WatchesRawSource(source.Channel(k.restart, &handler.TypedEnqueueRequestForObject[*sandbarv1alpha1.Template]{})).
		WithOptions(controller.Options{
			// One at a time: runners share the runtime cluster's informers.
			MaxConcurrentReconciles: 1,
			// The priority queue may hang at its shutdown, see pkg/export.
			UsePriorityQueue: new(bool),
			RateLimiter:      workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](kindRetryFirst, kindRetryMost),
		}).
		Complete(k)
}

// everyPodKind wakes the kinds with a pod template when a Template that offers one changes.
func (k *Kinds) everyPodKind(ctx context.Context, obj client.Object) []reconcile.Request {
	if template, ok := obj.(*sandbarv1alpha1.Template); !ok || template.Spec.Base == nil {
		return nil
	}
	return k.templates(ctx, func(t *sandbarv1alpha1.Template) bool { return t.Spec.PodTemplate != nil })
}

// everyCompoundKind wakes the kinds whose compound instances are made of a Template's.
func (k *Kinds) everyCompoundKind(ctx context.Context, obj client.Object) []reconcile.Request {
	return k.templates(ctx, func(t *sandbarv1alpha1.Template) bool {
		return t.Spec.Compound != nil && t.Spec.Compound.Template == obj.GetName()
	})
}

// everyCloneKind wakes the kinds of copies.
func (k *Kinds) everyCloneKind(ctx context.Context, _ client.Object) []reconcile.Request {
	return k.templates(ctx, func(t *sandbarv1alpha1.Template) bool { return t.Spec.Clones != nil })
}

func (k *Kinds) everyTemplate(ctx context.Context, _ client.Object) []reconcile.Request {
	return k.templates(ctx, func(*sandbarv1alpha1.Template) bool { return true })
}

func (k *Kinds) templates(ctx context.Context, wanted func(*sandbarv1alpha1.Template) bool) []reconcile.Request {
	var list sandbarv1alpha1.TemplateList
	if err := k.client.List(ctx, &list); err != nil {
		k.config.log.Error(err, "could not list the Templates")
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		if wanted(&list.Items[i]) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return requests
}

// registerRuntimeMetrics replaces the collector of a former registration, as tests make them.
func registerRuntimeMetrics(kcp client.Reader, runtime *runtimecluster.Cluster) error {
	collector := runtimeMetrics{runtime: runtime.GetClient(), names: runtime.Names, provider: members.ProviderOf(kcp)}
	err := metrics.Registry.Register(collector)
	var already prometheus.AlreadyRegisteredError
	if errors.As(err, &already) {
		metrics.Registry.Unregister(already.ExistingCollector)
		err = metrics.Registry.Register(collector)
	}
	return err
}
