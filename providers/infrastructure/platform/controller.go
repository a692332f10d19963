// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	kcpapisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

const (
	controllerName = "platform"
	fieldOwner     = client.FieldOwner("sandbar-controllers")
)

// Reasons of the conditions.
const (
	reasonReachable        = "Reachable"
	reasonUnreachable      = "Unreachable"
	reasonKubernetesTooOld = "KubernetesTooOld"
	reasonKroMissing       = "KroMissing"
	reasonKroTooOld        = "KroTooOld"
	reasonPublished        = "Published"
	reasonExportMissing    = "ExportMissing"
	reasonReady            = "Ready"
)

// Options of the controller.
type Options struct {
	// ExportName is the name of the APIExport. Defaults to "sandbar.dev".
	ExportName string
	// ProbeInterval is how often the runtime cluster is looked at. A look that finds nothing new
	// causes no reconcile. Defaults to 30 s.
	ProbeInterval time.Duration
}

func (o Options) withDefaults() Options {
	if o.ExportName == "" {
		o.ExportName = sandbarv1alpha1.GroupName
	}
	if o.ProbeInterval == 0 {
		o.ProbeInterval = 30 * time.Second
	}
	return o
}

type reconciler struct {
	opts    Options
	kcp     client.Client
	runtime client.Client
	probe   *probe
}

// Register adds the controller to a manager of the provider workspace, whose scheme must know
// sandbar.dev and kcp's apis.kcp.io. The runtime cluster must be part of the same manager.
func Register(mgr ctrl.Manager, runtime cluster.Cluster, opts Options) error {
	opts = opts.withDefaults()
	inspector, err := NewInspector(runtime.GetConfig())
	if err != nil {
		return err
	}
	probe := newProbe(inspector.Inspect, opts.ProbeInterval)
	if err := mgr.Add(probe); err != nil {
		return fmt.Errorf("adding the probe of the runtime cluster: %w", err)
	}
	r := &reconciler{opts: opts, kcp: mgr.GetClient(), runtime: runtime.GetClient(), probe: probe}
	toOnly := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: sandbarv1alpha1.InfrastructureProviderName}}}
	})
	export := predicate.NewPredicateFuncs(func(obj client.Object) bool { return obj.GetName() == opts.ExportName })
	return ctrl.NewControllerManagedBy(mgr).
		Named(controllerName).
		For(&sandbarv1alpha1.InfrastructureProvider{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&kcpapisv1alpha2.APIExport{}, toOnly, builder.WithPredicates(export)).
		WatchesRawSource(source.Kind[client.Object](runtime.GetCache(), &corev1.ConfigMap{}, toOnly)).
		WatchesRawSource(source.Channel(probe.changed, toOnly)).
		Complete(r)
}

// Reconcile publishes what the InfrastructureProvider says.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (_ ctrl.Result, err error) {
	provider := &sandbarv1alpha1.InfrastructureProvider{}
	if err := r.kcp.Get(ctx, req.NamespacedName, provider); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	before := provider.DeepCopy()
	defer func() {
		if patchErr := r.patchStatus(ctx, before, provider); err == nil {
			err = patchErr
		}
	}()
	r.reportRuntime(provider)
	err = r.publish(ctx, provider)
	summarize(provider)
	return ctrl.Result{}, err
}

// reportRuntime writes what the probe saw last; before its first look nothing is said.
func (r *reconciler) reportRuntime(provider *sandbarv1alpha1.InfrastructureProvider) {
	found, looked, err := r.probe.last()
	if !looked {
		return
	}
	provider.Status.Runtime = sandbarv1alpha1.RuntimeStatus{
		Reachable:         !errors.Is(err, ErrUnreachable),
		KubernetesVersion: found.KubernetesVersion,
		KroVersion:        found.KroVersion,
	}
	if err == nil {
		setCondition(provider, sandbarv1alpha1.ProviderRuntimeReachable, metav1.ConditionTrue, reasonOf(err), "the runtime cluster answers and has kro")
		return
	}
	setCondition(provider, sandbarv1alpha1.ProviderRuntimeReachable, metav1.ConditionFalse, reasonOf(err), err.Error())
}

// reasonOf is the reason of the condition RuntimeReachable for the outcome of Inspect.
func reasonOf(err error) string {
	switch {
	case err == nil:
		return reasonReachable
	case errors.Is(err, ErrKroMissing):
		return reasonKroMissing
	case errors.Is(err, ErrKroTooOld):
		return reasonKroTooOld
	case errors.Is(err, ErrKubernetesTooOld):
		return reasonKubernetesTooOld
	default:
		return reasonUnreachable
	}
}

func (r *reconciler) publish(ctx context.Context, provider *sandbarv1alpha1.InfrastructureProvider) error {
	report := func(status metav1.ConditionStatus, reason, message string) {
		setCondition(provider, sandbarv1alpha1.ProviderPlatformPublished, status, reason, message)
	}
	if err := r.publishConfigMap(ctx, provider); err != nil {
		report(metav1.ConditionFalse, reasonUnreachable, "the ConfigMap of the platform cannot be written: "+err.Error())
		return err
	}
	err := r.publishAnnotations(ctx, provider)
	if apierrors.IsNotFound(err) {
		report(metav1.ConditionFalse, reasonExportMissing,
			"the provider workspace has no APIExport "+r.opts.ExportName+"; run sandbar-provider init")
		return nil
	}
	if err != nil {
		return err
	}
	report(metav1.ConditionTrue, reasonPublished, "graphs and clients see this configuration")
	return nil
}

// publishConfigMap writes the ConfigMap when it says something else. The whole data is ours:
// kro would give graphs whatever somebody adds to it.
func (r *reconciler) publishConfigMap(ctx context.Context, provider *sandbarv1alpha1.InfrastructureProvider) error {
	desired := ConfigMapData(&provider.Spec)
	current := &corev1.ConfigMap{}
	key := types.NamespacedName{Namespace: placement.SystemNamespace, Name: placement.PlatformConfigMap}
	err := r.runtime.Get(ctx, key, current)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading ConfigMap %s: %w", key, err)
	}
	if err == nil && maps.Equal(current.Data, desired) {
		return nil
	}
	if err == nil {
		// An apply would leave the keys of others in place.
		updated := current.DeepCopy()
		updated.Data = desired
		if err := r.runtime.Patch(ctx, updated, client.MergeFrom(current)); err != nil {
			return fmt.Errorf("writing ConfigMap %s: %w", key, err)
		}
		return nil
	}
	config := corev1ac.ConfigMap(key.Name, key.Namespace).
		WithLabels(map[string]string{placement.LabelManagedBy: placement.ManagedBy}).WithData(desired)
	if err := r.runtime.Apply(ctx, config, fieldOwner, client.ForceOwnership); err != nil {
		return fmt.Errorf("writing ConfigMap %s: %w", key, err)
	}
	return nil
}

func (r *reconciler) publishAnnotations(ctx context.Context, provider *sandbarv1alpha1.InfrastructureProvider) error {
	export := &kcpapisv1alpha2.APIExport{}
	if err := r.kcp.Get(ctx, types.NamespacedName{Name: r.opts.ExportName}, export); err != nil {
		return fmt.Errorf("reading APIExport %s: %w", r.opts.ExportName, err)
	}
	updated := export.DeepCopy()
	if updated.Annotations == nil {
		updated.Annotations = map[string]string{}
	}
	for key, value := range ExportAnnotations(&provider.Spec) {
		if value == "" {
			delete(updated.Annotations, key)
			continue
		}
		updated.Annotations[key] = value
	}
	if maps.Equal(export.Annotations, updated.Annotations) {
		return nil
	}
	if err := r.kcp.Patch(ctx, updated, client.MergeFrom(export)); err != nil {
		return fmt.Errorf("annotating APIExport %s: %w", r.opts.ExportName, err)
	}
	return nil
}

func setCondition(provider *sandbarv1alpha1.InfrastructureProvider, condition string, status metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&provider.Status.Conditions, metav1.Condition{
		Type: condition, Status: status, Reason: reason, Message: message, ObservedGeneration: provider.Generation,
	})
}

// summarize derives Ready from the other two.
func summarize(provider *sandbarv1alpha1.InfrastructureProvider) {
	for _, condition := range []string{sandbarv1alpha1.ProviderRuntimeReachable, sandbarv1alpha1.ProviderPlatformPublished} {
		c := meta.FindStatusCondition(provider.Status.Conditions, condition)
		if c == nil {
			setCondition(provider, sandbarv1alpha1.ProviderReady, metav1.ConditionUnknown, "Pending", condition+" is not known yet")
			return
		}
		if c.Status != metav1.ConditionTrue {
			setCondition(provider, sandbarv1alpha1.ProviderReady, metav1.ConditionFalse, c.Reason, condition+": "+c.Message)
			return
		}
	}
	setCondition(provider, sandbarv1alpha1.ProviderReady, metav1.ConditionTrue, reasonReady, "instances can be placed")
}

func (r *reconciler) patchStatus(ctx context.Context, before, provider *sandbarv1alpha1.InfrastructureProvider) error {
	provider.Status.ObservedGeneration = provider.Generation
	if equality.Semantic.DeepEqual(before.Status, provider.Status) {
		return nil
	}
	if err := r.kcp.Status().Patch(ctx, provider, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing the status of InfrastructureProvider %s: %w", provider.Name, err)
	}
	return nil
}
