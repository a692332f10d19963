// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"context"
	"fmt"

	kcpapisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	kcpapisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	krov1alpha1 "github.com/kubernetes-sigs/kro/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

const (
	// Finalizer keeps a Template until nothing of it is left.
	Finalizer = "sandbar.dev/template"
	// PolicyRole is the ClusterRole that says what tenants may do at most; package install
	// makes and binds it, this package writes its rules.
	PolicyRole = "sandbar-policy-tenants"

	controllerName = "template"
	// fieldOwner is the manager of the fields that this controller applies.
	fieldOwner = client.FieldOwner("sandbar-controllers")
)

// Options of the controller.
type Options struct {
	// ExportName is the name of the APIExport, and of its endpoint slice. Defaults to "sandbar.dev".
	ExportName string
	// MaxConcurrentReconciles is how many Templates are worked on at once. Templates are few and
	// share the APIExport, so it defaults to 1.
	MaxConcurrentReconciles int
}

func (o Options) withDefaults() Options {
	if o.ExportName == "" {
		o.ExportName = sandbarv1alpha1.GroupName
	}
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
	// policy reads the one ClusterRole PolicyRole and no other.
	policy client.Reader
	// runtime reads from the runtime cluster's cache and writes to the cluster.
	runtime client.Client
	// preflight asks what kro would say.
	preflight *preflight
}

// Register adds the controller to a manager of the provider workspace, whose scheme must know
// sandbar.dev, kcp's apis.kcp.io and rbac.authorization.k8s.io. The runtime cluster must be
// part of the same manager.
func Register(mgr ctrl.Manager, runtime cluster.Cluster, opts Options) error {
	opts = opts.withDefaults()
	// A cache of its own, so that the provider may read this ClusterRole and needs no right to
	// list the others.
	policy, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(),
		Scheme:     mgr.GetScheme(),
		Mapper:     mgr.GetRESTMapper(),
		ByObject: map[client.Object]cache.ByObject{
			&rbacv1.ClusterRole{}: {Field: fields.OneTermEqualSelector("metadata.name", PolicyRole)},
		},
	})
	if err != nil {
		return fmt.Errorf("making the cache of the policy role: %w", err)
	}
	if err := mgr.Add(policy); err != nil {
		return fmt.Errorf("adding the cache of the policy role: %w", err)
	}
	preflight, err := newPreflight(runtime.GetConfig())
	if err != nil {
		return err
	}
	r := &reconciler{
		opts: opts, kcp: mgr.GetClient(), kcpConfig: mgr.GetConfig(), policy: policy,
		runtime: runtime.GetClient(), preflight: preflight,
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
		// The images that development contracts name are its.
		Watches(&sandbarv1alpha1.InfrastructureProvider{}, handler.EnqueueRequestsFromMapFunc(r.all),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&kcpapisv1alpha2.APIExport{}, handler.EnqueueRequestsFromMapFunc(r.all), builder.WithPredicates(named(opts.ExportName))).
		Watches(&kcpapisv1alpha1.APIResourceSchema{}, handler.EnqueueRequestsFromMapFunc(byLabel)).
		WatchesRawSource(source.Kind[client.Object](policy, &rbacv1.ClusterRole{}, handler.EnqueueRequestsFromMapFunc(r.all))).
		WatchesRawSource(source.Kind[client.Object](runtime.GetCache(), &krov1alpha1.ResourceGraphDefinition{}, handler.EnqueueRequestsFromMapFunc(byName))).
		WatchesRawSource(source.Kind[client.Object](runtime.GetCache(), &apiextensionsv1.CustomResourceDefinition{}, handler.EnqueueRequestsFromMapFunc(byGraph))).
		WatchesRawSource(source.Kind[client.Object](runtime.GetCache(), &corev1.Namespace{}, coalesced(byLabel))).
		Complete(r)
}

// Reconcile makes one Template into an API, as far as it can be made now.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (result ctrl.Result, err error) {
	tmpl := &sandbarv1alpha1.Template{}
	if err := r.kcp.Get(ctx, req.NamespacedName, tmpl); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	before := tmpl.DeepCopy()
	defer func() {
		if patchErr := r.patchStatus(ctx, before, tmpl); err == nil {
			err = patchErr
		}
	}()
	if tmpl.Status.Instances, err = r.countPlacements(ctx, tmpl.Name); err != nil {
		return ctrl.Result{}, err
	}
	if !tmpl.DeletionTimestamp.IsZero() {
		return r.retire(ctx, tmpl)
	}
	return ctrl.Result{}, r.publish(ctx, tmpl)
}

// publish goes from the Template to an API that tenants can use. Each phase sets its condition
// and says whether the next may follow; one that has to wait is woken by a watch.
func (r *reconciler) publish(ctx context.Context, tmpl *sandbarv1alpha1.Template) error {
	defer summarize(tmpl)
	if err := r.setFinalizer(ctx, tmpl, true); err != nil {
		return err
	}
	p, ok, err := r.check(ctx, tmpl)
	if err != nil || !ok {
		return err
	}
	crd, ok, err := r.acceptGraph(ctx, tmpl, p)
	if err != nil || !ok {
		return err
	}
	schemaName, ok, err := r.publishSchema(ctx, tmpl, p, crd)
	if err != nil || !ok {
		return err
	}
	if ok, err := r.export(ctx, tmpl, p, schemaName); err != nil || !ok {
		return err
	}
	return r.collectSchemas(ctx, tmpl, schemaName)
}
