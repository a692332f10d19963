// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	kcpapisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	kcpapisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	krov1alpha1 "github.com/kubernetes-sigs/kro/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/offer"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/rollout"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/runtimecluster"
)

const (
	// Finalizer keeps a Template until nothing of it is left.
	Finalizer = "sandbar.dev/template"

	controllerName = "template"
	// fieldOwner is the manager of the fields that this controller applies.
	fieldOwner = client.FieldOwner("sandbar-controllers")
)

// Options of the controller.
type Options struct {
	// Offers writes the APIExport, whose endpoint slice has the same name, and the policy. Defaults to those
	// of the export "sandbar.dev".
	Offers *offer.Offers
	// MaxConcurrentReconciles is how many Templates are worked on at once. Templates are few and
	// share the APIExport, so it defaults to 1.
	MaxConcurrentReconciles int
	// Rollouts grants instances the turn to take a change of a Template.
	Rollouts *rollout.Tracker
}

func (o Options) withDefaults() Options {
	if o.MaxConcurrentReconciles == 0 {
		o.MaxConcurrentReconciles = 1
	}
	return o
}

// reconciler makes one Template into an API.
type reconciler struct {
	opts Options
	// kcp reads and writes the provider workspace; its scheme has kcp's apis group.
	kcp client.Client
	// kcpConfig reaches the virtual workspace of the export for live lists.
	kcpConfig *rest.Config
	// offers writes the export and the policy.
	offers *offer.Offers
	// runtime reads from the runtime cluster's cache and writes to the cluster.
	runtime client.Client
	// runtimeConfig reaches the runtime cluster for live lists.
	runtimeConfig *rest.Config
	// preflight asks what kro would say.
	preflight *preflight
	rollouts  *rollout.Tracker
	// names are those of what the provider has on the runtime cluster.
	names placement.Names

	// mu guards own, the CRDs that kro would make of Templates' own graphs, by Template.
	mu  sync.Mutex
	own map[string]*apiextensionsv1.CustomResourceDefinition
	// narrowings and looks are of narrow.go, by Template.
	narrowings map[string]*narrowing
	looks      map[string]look

	now func() time.Time
}

// Register adds the controller to a manager of the provider workspace, whose scheme must know
// sandbar.dev, kcp's apis.kcp.io and rbac.authorization.k8s.io. The runtime cluster must be
// part of the same manager.
func Register(mgr ctrl.Manager, runtime *runtimecluster.Cluster, opts Options) error {
	opts = opts.withDefaults()
	if opts.Offers == nil {
		var err error
		if opts.Offers, err = offer.Register(mgr, ""); err != nil {
			return err
		}
	}
	preflight, err := newPreflight(runtime.GetConfig())
	if err != nil {
		return err
	}
	r := &reconciler{
		opts: opts, kcp: mgr.GetClient(), kcpConfig: mgr.GetConfig(),
		offers:  opts.Offers,
		runtime: runtime.GetClient(), runtimeConfig: runtime.GetConfig(), preflight: preflight, rollouts: opts.Rollouts, names: runtime.Names,
		own: map[string]*apiextensionsv1.CustomResourceDefinition{}, narrowings: map[string]*narrowing{}, looks: map[string]look{}, now: time.Now,
	}
	// An annotation is a way to have a Template looked at again, for example when the cluster
	// has got a kind that its graph was refused for.
	changed := predicate.Or[client.Object](predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{})
	return ctrl.NewControllerManagedBy(mgr).
		Named(controllerName).
		WithOptions(controller.Options{MaxConcurrentReconciles: opts.MaxConcurrentReconciles}).
		For(&sandbarv1alpha1.Template{}, builder.WithPredicates(changed)).
		Watches(&sandbarv1alpha1.Template{}, handler.EnqueueRequestsFromMapFunc(r.rivals),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		// It says how changes are rolled out.
		Watches(&sandbarv1alpha1.InfrastructureProvider{}, handler.EnqueueRequestsFromMapFunc(r.all),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		// The platform's values, and those of revisions, which somebody may delete.
		WatchesRawSource(source.Kind[client.Object](runtime.GetCache(), &corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(r.byPlatform))).
		WatchesRawSource(source.Channel(opts.Rollouts.Changed(), gathered())).
		Watches(&kcpapisv1alpha2.APIExport{}, handler.EnqueueRequestsFromMapFunc(r.all), builder.WithPredicates(offer.Named(opts.Offers.ExportName))).
		Watches(&kcpapisv1alpha1.APIResourceSchema{}, handler.EnqueueRequestsFromMapFunc(byLabel)).
		WatchesRawSource(opts.Offers.PolicyChanged(handler.EnqueueRequestsFromMapFunc(r.all))).
		WatchesRawSource(source.Kind[client.Object](runtime.GetCache(), &krov1alpha1.ResourceGraphDefinition{}, handler.EnqueueRequestsFromMapFunc(r.byGraph))).
		WatchesRawSource(source.Kind[client.Object](runtime.GetCache(), &apiextensionsv1.CustomResourceDefinition{}, handler.EnqueueRequestsFromMapFunc(r.byCRD))).
		WatchesRawSource(source.Kind[client.Object](runtime.GetCache(), &corev1.Namespace{}, coalesced(byLabel))).
		Complete(r)
}

// Reconcile makes one Template into an API, as far as it can be made now.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (result ctrl.Result, err error) {
	tmpl := &sandbarv1alpha1.Template{}
	if err := r.kcp.Get(ctx, req.NamespacedName, tmpl); apierrors.IsNotFound(err) {
		r.forget(req.Name)
		return ctrl.Result{}, nil
	} else if err != nil {
		return ctrl.Result{}, fmt.Errorf("reading the Template: %w", err)
	}
	before := tmpl.DeepCopy()
	defer func() {
		if patchErr := r.patchStatus(ctx, before, tmpl); err == nil {
			err = patchErr
		}
	}()
	if tmpl.Status.Instances, _, err = r.countPlacements(ctx, tmpl); err != nil {
		return ctrl.Result{}, err
	}
	if !tmpl.DeletionTimestamp.IsZero() {
		return r.retire(ctx, tmpl)
	}
	wait, err := r.publish(ctx, tmpl)
	return ctrl.Result{RequeueAfter: wait}, errors.Join(err, r.present(ctx, tmpl))
}

// publish goes from the Template to an API that tenants can use. Each phase sets its condition
// and says whether the next may follow; one that has to wait is woken by a watch.
func (r *reconciler) publish(ctx context.Context, tmpl *sandbarv1alpha1.Template) (wait time.Duration, err error) {
	defer summarize(tmpl)
	if err := r.setFinalizer(ctx, tmpl, true); err != nil {
		return 0, err
	}
	p, schemaName, ok, err := r.accept(ctx, tmpl)
	if err != nil || !ok {
		wait, giveUpErr := r.giveUpNarrowing(ctx, tmpl)
		return wait, errors.Join(err, giveUpErr)
	}
	if ok, wait, err := r.export(ctx, tmpl, p, schemaName); err != nil || !ok {
		return wait, err
	}
	return 0, r.collectSchemas(ctx, tmpl, schemaName)
}

// accept goes from the Template to a schema that can be offered.
func (r *reconciler) accept(ctx context.Context, tmpl *sandbarv1alpha1.Template) (p *plan, schemaName string, ok bool, err error) {
	p, ok, err = r.check(ctx, tmpl)
	if err != nil || !ok {
		return nil, "", false, err
	}
	crd, ok, err := r.acceptGraph(ctx, tmpl, p)
	if err != nil || !ok {
		return nil, "", false, err
	}
	schemaName, ok, err = r.publishSchema(ctx, tmpl, p, crd)
	return p, schemaName, ok, err
}
