// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package tenantkind runs the controller of a built-in kind (package builtin). It publishes the kind's schema, lets tenants
// use it, follows its objects on all shards, and has every one looked at when the operator says something else.
//
// In: the kind's entry in the register and a reconciler for its objects. Out: an export.Controller that runs for as
// long as this process leads.
package tenantkind

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	kcpapisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	kcpapisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
	"sigs.k8s.io/yaml"

	"github.com/sandbar-dev/sandbar/apis/builtin"
	"github.com/sandbar-dev/sandbar/apis/crds"
	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/pkg/podtemplate"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/offer"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/runtimecluster"
)

// fieldOwner owns what is written in tenants' workspaces.
const fieldOwner = "sandbar"

// Kind is a built-in kind of tenants.
type Kind struct {
	builtin.Kind

	// Concurrency is how many objects are looked at at once.
	Concurrency int
	// Changed, if set, is told of each object that comes, changes in a way that matters, or goes; of no change of a status.
	Changed func(export.Key)
}

// told tells of a change of an object.
func (k Kind) told(obj metav1.Object) {
	if key, ok := export.KeyOf(obj); ok && k.Changed != nil {
		k.Changed(key)
	}
}

// controllerName names the controller in logs and metrics.
func (k Kind) controllerName() string { return strings.ToLower(k.Name) }

// Rules are those that tenants get at most.
func (k Kind) Rules() []rbacv1.PolicyRule {
	return slices.Concat(
		offer.KindRules(k.Resource, offer.AllVerbs),
		offer.SubresourceRules(k.Resource, offer.AllVerbs, k.Subresources...),
		offer.SubresourceRules(k.Resource, []string{"create"}, k.Calls...),
		offer.SubresourceRules(k.Resource, []string{"get"}, slices.Concat(k.Reads, k.Shown)...),
	)
}

// Says returns what the operator says that matters to every object of a kind.
type Says func(ctx context.Context, provider, runtime client.Reader) (any, error)

// Register adds the controller of a kind to the manager of the provider workspace. The reconciler is made by
// a function, which is given the controller.
func Register(mgr ctrl.Manager, runtime *runtimecluster.Cluster, offers *offer.Offers, kind Kind, says Says,
	newReconciler func(*export.Controller) reconcile.TypedReconciler[export.Key],
) error {
	k := &kindController{
		Kind: kind, client: mgr.GetClient(), runtime: runtime.GetClient(), offers: offers, says: says,
		failed: make(chan struct{}), log: mgr.GetLogger().WithName(kind.controllerName()),
	}
	var err error
	k.controller, err = export.NewController(export.Kind{GVK: kind.GVK(), Resource: kind.Resource}, export.ControllerOptions{
		Name: kind.controllerName(), Concurrency: kind.Concurrency, Config: mgr.GetConfig(), FieldManager: fieldOwner, Log: k.log,
		Retried: func() {}, Failed: func() { close(k.failed) }, Changed: kind.told,
	}, func(c *export.Controller) reconcile.TypedReconciler[export.Key] {
		return letsGo{newReconciler(c), c.Objects.Known}
	})
	if err != nil {
		return err
	}
	if err := mgr.Add(manager.RunnableFunc(k.run)); err != nil {
		return fmt.Errorf("adding the controller of %s: %w", kind.Resource, err)
	}
	enqueue := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: offers.ExportName}}}
	})
	return builder.ControllerManagedBy(mgr).
		Named(kind.controllerName()+"-kind").
		For(&kcpapisv1alpha2.APIExport{}, builder.WithPredicates(offer.Named(offers.ExportName))).
		Watches(&kcpapisv1alpha1.APIExportEndpointSlice{}, enqueue).
		Watches(&sandbarv1alpha1.Template{}, enqueue).
		Watches(&sandbarv1alpha1.InfrastructureProvider{}, enqueue).
		WatchesRawSource(source.Kind[client.Object](runtime.GetCache(), &corev1.ConfigMap{}, enqueue)).
		WatchesRawSource(offers.PolicyChanged(enqueue)).
		WithOptions(controller.Options{MaxConcurrentReconciles: 1, UsePriorityQueue: new(bool)}).
		Complete(k)
}

// kindController offers the kind, and follows it.
type kindController struct {
	Kind

	client     client.Client // of the provider workspace
	runtime    client.Reader
	offers     *offer.Offers
	says       Says
	controller *export.Controller
	// failed is closed when the controller ends without having been stopped.
	failed chan struct{}
	log    logr.Logger
	// said is what the operator said when all objects were last looked at.
	said any
}

// run keeps the controller of the objects for as long as this process leads.
func (k *kindController) run(ctx context.Context) error {
	k.controller.Start(ctx)
	defer k.controller.Close()
	select {
	case <-ctx.Done():
		return nil
	case <-k.failed:
		return fmt.Errorf("the controller of %s has ended by itself", k.Resource) // and the process starts again
	}
}

// Reconcile offers the kind to tenants, follows it on all shards, and has every object looked at when the
// operator says something else.
func (k *kindController) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	if err := k.offer(ctx); err != nil {
		if export.IsGone(err) { // the export, and not the workspace of a kcp that starts
			k.log.Info("the kind cannot be offered before sandbar-provider init has run", "cause", err.Error())
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
	says, err := k.says(ctx, k.client, k.runtime)
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
	schema, err := k.Schema()
	if err != nil {
		return err
	}
	if err := k.offers.Publish(ctx, schema); err != nil {
		return err
	}
	if _, err := k.offers.SetRules(ctx, k.Resource, k.Rules()); err != nil {
		return err
	}
	_, err = k.offers.SetEntry(ctx, k.GVR().GroupResource(), schema.Name)
	return err
}

// Schema makes the kind's schema as tenants see it.
func (k Kind) Schema() (*kcpapisv1alpha1.APIResourceSchema, error) {
	raw, err := crds.All.ReadFile(k.Definition())
	if err != nil {
		return nil, fmt.Errorf("reading the definition of %s: %w", k.Resource, err)
	}
	return k.schemaOf(raw)
}

// schemaOf makes the schema of a definition in YAML.
func (k Kind) schemaOf(raw []byte) (*kcpapisv1alpha1.APIResourceSchema, error) {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(raw, crd); err != nil {
		return nil, fmt.Errorf("reading the definition of %s: %w", k.Resource, err)
	}
	if k.PodField != "" {
		// The pod is a Sandbox's, with all of its rules, and without the descriptions of a pod.
		spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
		written, ok := spec.Properties[k.PodField]
		if !ok {
			return nil, fmt.Errorf("the definition of %s has no field spec.%s, which is to hold a pod; correct PodField in apis/builtin", k.Resource, k.PodField)
		}
		pod := podtemplate.Schema().Properties["podTemplate"]
		pod.Description = written.Description
		spec.Properties[k.PodField] = pod
	}
	return offer.Schema(crd, map[string]string{placement.LabelManagedBy: placement.ManagedBy})
}
