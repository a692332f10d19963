// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package sandboxtemplate

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-logr/logr"
	kcpapisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	kcpapisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/offer"
)

// concurrency is how many SandboxTemplates are looked at at once.
const concurrency = 2

// Options are what the controller of SandboxTemplates needs in addition to the two clusters.
type Options struct {
	Offers *offer.Offers
}

// Register adds the controller to the manager of the provider workspace, and returns what reads
// SandboxTemplates.
func Register(mgr ctrl.Manager, runtime cluster.Cluster, opts Options) (*Templates, error) {
	k := &kindController{
		client: mgr.GetClient(), runtime: runtime.GetClient(), offers: opts.Offers, failed: make(chan struct{}), log: mgr.GetLogger().WithName("sandboxtemplate"),
	}
	templates := &Templates{appeared: func(export.Key) {}}
	var err error
	k.controller, err = export.NewController(kind, export.ControllerOptions{
		Name: "sandboxtemplate", Concurrency: concurrency, Config: mgr.GetConfig(), FieldManager: fieldOwner, Log: k.log,
		Retried: func() {}, Failed: func() { close(k.failed) },
	}, func(c *export.Controller) reconcile.TypedReconciler[export.Key] {
		templates.objects = c.Objects
		return newReconciler(templates, mgr.GetClient(), runtime.GetClient(), func(key export.Key) { c.Wake(key, false) })
	})
	if err != nil {
		return nil, err
	}
	if err := mgr.Add(manager.RunnableFunc(k.run)); err != nil {
		return nil, fmt.Errorf("adding the controller of SandboxTemplates: %w", err)
	}
	enqueue := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: opts.Offers.ExportName}}}
	})
	return templates, builder.ControllerManagedBy(mgr).
		Named("sandboxtemplate-kind").
		For(&kcpapisv1alpha2.APIExport{}, builder.WithPredicates(offer.Named(opts.Offers.ExportName))).
		Watches(&kcpapisv1alpha1.APIExportEndpointSlice{}, enqueue).
		Watches(&sandbarv1alpha1.Template{}, enqueue).
		Watches(&sandbarv1alpha1.InfrastructureProvider{}, enqueue).
		WatchesRawSource(source.Kind[client.Object](runtime.GetCache(), &corev1.ConfigMap{}, enqueue)).
		WatchesRawSource(opts.Offers.PolicyChanged(enqueue)).
		WithOptions(controller.Options{MaxConcurrentReconciles: 1, UsePriorityQueue: new(bool)}).
		Complete(k)
}

// kindController offers the kind, and follows it.
type kindController struct {
	client     client.Client // of the provider workspace
	runtime    client.Reader
	offers     *offer.Offers
	controller *export.Controller
	// failed is closed when the controller ends without having been stopped.
	failed chan struct{}
	log    logr.Logger
	// said is what the operator said when all SandboxTemplates were last looked at.
	said settings
}

var errEnded = errors.New("the controller of SandboxTemplates has ended by itself")

// run keeps the controller of SandboxTemplates for as long as this process leads.
func (k *kindController) run(ctx context.Context) error {
	k.controller.Start(ctx)
	defer k.controller.Close()
	select {
	case <-ctx.Done():
		return nil
	case <-k.failed:
		return errEnded // and the process starts again
	}
}

// Reconcile offers the kind to tenants, follows it on all shards, and has every SandboxTemplate looked at
// when the operator says something else of pods.
func (k *kindController) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	if err := k.offer(ctx); err != nil {
		if apierrors.IsNotFound(err) {
			k.log.Info("SandboxTemplates cannot be offered before sandbar-provider init has run", "cause", err.Error())
			return reconcile.Result{}, nil
		}
		return reconcile.Result{}, err
	}
	endpoints, err := export.ReadEndpoints(ctx, k.client, k.offers.ExportName)
	if client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, err
	}
	if err := k.controller.Objects.Follow(endpoints.URLs); err != nil {
		return reconcile.Result{}, err
	}
	says, err := readSettings(ctx, k.client, k.runtime)
	if err != nil {
		return reconcile.Result{}, err
	}
	if !equality.Semantic.DeepEqual(k.said, says) {
		k.said = says
		k.controller.WakeAll()
	}
	return reconcile.Result{}, nil
}

// offer publishes the schema, lets tenants use the kind, and puts it into the export, in this order: kcp
// denies every verb that the policy does not name.
func (k *kindController) offer(ctx context.Context) error {
	schema, err := buildSchema()
	if err != nil {
		return err
	}
	if err := k.offers.Publish(ctx, schema); err != nil {
		return err
	}
	if _, err := k.offers.SetRules(ctx, kind.Resource, offer.KindRules(kind.Resource, offer.AllVerbs)); err != nil {
		return err
	}
	_, err = k.offers.SetEntry(ctx, kind.GVR().GroupResource(), schema.Name)
	return err
}
