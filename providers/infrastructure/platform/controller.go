// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	kcpapisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	krov1alpha1 "github.com/kubernetes-sigs/kro/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/canary"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/netcheck"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/runtimecluster"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/serving"
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
	reasonMisconfigured    = "Misconfigured"
	reasonReady            = "Ready"

	reasonImageMissing        = "ImageMissing"
	reasonImageInvalid        = "ImageInvalid"
	reasonRuntimeClassMissing = "RuntimeClassMissing"
	reasonSettingsRefused     = "SettingsRefused"

	reasonComposing    = "Composing"
	reasonNotComposing = "NotComposing"
)

// ErrRefused is the error of Options.Try for settings with which no placement can be made.
var ErrRefused = errors.New("the runtime cluster refuses the settings")

// tryAgain is how often a refused change is looked at again: no event tells that a RuntimeClass has
// come, or that init has allowed a pod security level.
const tryAgain = 30 * time.Second

// runnerImage is the key of the image with the runner's program, among InfrastructureProvider.spec.images.
const runnerImage = "runner"

// Options of the controller.
type Options struct {
	// ExportName is the name of the APIExport. Defaults to "sandbar.dev".
	ExportName string
	// ProbeInterval is how often the runtime cluster is looked at. A look that finds nothing new
	// causes no reconcile. Defaults to 30 s.
	ProbeInterval time.Duration
	// Try reports whether placements can be made with a spec; its error is ErrRefused if they cannot.
	// Nil means that this is not tried.
	Try func(ctx context.Context, spec *sandbarv1alpha1.InfrastructureProviderSpec) error
	// Egress returns the egress policy of placements with a spec, for the pods that own selects; its error says
	// what is wrong with the spec. DNS is tried under it. Nil means that it is not tried.
	Egress func(spec *sandbarv1alpha1.InfrastructureProviderSpec, own metav1.LabelSelector) (networkingv1.NetworkPolicySpec, error)
	// Canary reports whether kro composes. Nil means that this is not known.
	Canary *canary.Canary
	// Replicas says whether unused instances are put to sleep and deleted. Nil reports nothing of it.
	Replicas *serving.Replicas
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
	// live reads from the runtime cluster's API server.
	live    client.Reader
	probe   *probe
	network *netcheck.Prober
	// names are those of what the provider has on the runtime cluster.
	names placement.Names
}

// Register adds the controller to a manager of the provider workspace, whose scheme must know
// sandbar.dev and kcp's apis.kcp.io. The runtime cluster must be part of the same manager.
func Register(mgr ctrl.Manager, runtime *runtimecluster.Cluster, opts Options) error {
	opts = opts.withDefaults()
	inspector, err := NewInspector(runtime.GetConfig())
	if err != nil {
		return err
	}
	probe := newProbe(inspector.Inspect, opts.ProbeInterval)
	if err := mgr.Add(probe); err != nil {
		return fmt.Errorf("adding the probe of the runtime cluster: %w", err)
	}
	direct, err := kubernetes.NewForConfig(runtime.GetConfig())
	if err != nil {
		return fmt.Errorf("connecting to the runtime cluster: %w", err)
	}
	network := netcheck.New(direct, runtime.Names.NetworkCheckNamespace(), probe.tell)
	if err := mgr.Add(network); err != nil {
		return fmt.Errorf("adding the check of network policies and DNS: %w", err)
	}
	r := &reconciler{
		opts: opts, kcp: mgr.GetClient(), runtime: runtime.GetClient(), live: runtime.GetAPIReader(), probe: probe, network: network, names: runtime.Names,
	}
	toOnly := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: sandbarv1alpha1.InfrastructureProviderName}}}
	})
	export := predicate.NewPredicateFuncs(func(obj client.Object) bool { return obj.GetName() == opts.ExportName })
	b := ctrl.NewControllerManagedBy(mgr).
		Named(controllerName).
		For(&sandbarv1alpha1.InfrastructureProvider{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&kcpapisv1alpha2.APIExport{}, toOnly, builder.WithPredicates(export)).
		WatchesRawSource(source.Kind[client.Object](runtime.GetCache(), &corev1.ConfigMap{}, toOnly)).
		// What Templates read may be what a change is refused for.
		WatchesRawSource(source.Kind[client.Object](runtime.GetCache(), &krov1alpha1.ResourceGraphDefinition{}, toOnly, predicate.GenerationChangedPredicate{})).
		WatchesRawSource(source.Channel(probe.changed, toOnly))
	if opts.Canary != nil {
		b = b.WatchesRawSource(source.Channel(opts.Canary.Changed(), toOnly))
	}
	if opts.Replicas != nil {
		b = b.WatchesRawSource(source.Channel(opts.Replicas.Changed(), toOnly))
	}
	return b.Complete(r)
}

// Reconcile publishes what the InfrastructureProvider says.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (result ctrl.Result, err error) {
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
	r.reportComposing(provider)
	r.reportReplicas(provider)
	result, err = r.publish(ctx, provider)
	summarize(provider)
	return result, err
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
		NotComposingSince: provider.Status.Runtime.NotComposingSince,
	}
	if err == nil {
		setCondition(provider, sandbarv1alpha1.ProviderRuntimeReachable, metav1.ConditionTrue, reasonOf(err), "the runtime cluster answers and has kro")
		return
	}
	setCondition(provider, sandbarv1alpha1.ProviderRuntimeReachable, metav1.ConditionFalse, reasonOf(err), err.Error())
}

// reportComposing writes what the canary found; before that nothing is said.
func (r *reconciler) reportComposing(provider *sandbarv1alpha1.InfrastructureProvider) {
	if r.opts.Canary == nil {
		return
	}
	state := r.opts.Canary.State()
	switch {
	case !state.Known:
	case state.Composing:
		provider.Status.Runtime.NotComposingSince = nil
		setCondition(provider, sandbarv1alpha1.ProviderComposing, metav1.ConditionTrue, reasonComposing, "kro composes the provider's own instance in time")
	default:
		since := metav1.NewTime(state.Since.Truncate(time.Second))
		if !state.Last.IsZero() {
			since = metav1.NewTime(state.Last.Truncate(time.Second))
		}
		provider.Status.Runtime.NotComposingSince = &since
		setCondition(provider, sandbarv1alpha1.ProviderComposing, metav1.ConditionFalse, reasonNotComposing,
			"kro has not composed the provider's own instance since "+since.UTC().Format(time.RFC3339)+"; see whether kro runs on the runtime cluster, and what "+
				"its log says. Instances that run go on; what is created or changed waits, and goes on by itself")
	}
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

func (r *reconciler) publish(ctx context.Context, provider *sandbarv1alpha1.InfrastructureProvider) (ctrl.Result, error) {
	report := func(status metav1.ConditionStatus, reason, message string) {
		setCondition(provider, sandbarv1alpha1.ProviderPlatformPublished, status, reason, message)
	}
	current, key := &corev1.ConfigMap{}, platformKey(r.names)
	if err := r.runtime.Get(ctx, key, current); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("reading ConfigMap %s: %w", key, err)
	}
	accepted, spec := acceptedIn(current, provider.UID), &provider.Spec
	if accepted == nil && maps.Equal(current.Data, ConfigMapData(spec)) {
		accepted = spec // it was published before changes were checked
	}
	var refused *refusal
	err := r.check(ctx, spec, accepted)
	if errors.As(err, &refused) {
		message := refused.message
		if !equality.Semantic.DeepEqual(spec, accepted) {
			message += ". Nothing of this change was published: instances and tenants notice nothing of it"
		}
		report(metav1.ConditionFalse, refused.reason, message)
		if accepted == nil {
			return ctrl.Result{RequeueAfter: tryAgain}, nil
		}
		spec, err = accepted, nil // which somebody may have changed by hand
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	r.reportNetwork(provider, spec)
	if err := r.publishConfigMap(ctx, settings{Of: provider.UID, Spec: spec}, current); err != nil {
		report(metav1.ConditionFalse, reasonUnreachable, "the ConfigMap of the platform cannot be written: "+err.Error())
		return ctrl.Result{}, err
	}
	err = r.publishAnnotations(ctx, spec)
	if apierrors.IsNotFound(err) {
		report(metav1.ConditionFalse, reasonExportMissing,
			"the provider workspace has no APIExport "+r.opts.ExportName+"; run sandbar-provider init")
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	if refused != nil {
		return ctrl.Result{RequeueAfter: tryAgain}, nil //nolint:nilerr // the condition says it
	}
	report(metav1.ConditionTrue, reasonPublished, "graphs and clients see this configuration")
	return ctrl.Result{}, nil
}

// publishConfigMap writes the ConfigMap when it says something else. The whole data is ours:
// kro would give graphs whatever somebody adds to it.
func (r *reconciler) publishConfigMap(ctx context.Context, accepted settings, current *corev1.ConfigMap) error {
	desired, key := ConfigMapData(accepted.Spec), platformKey(r.names)
	raw, err := json.Marshal(accepted)
	if err != nil {
		return fmt.Errorf("writing the accepted settings: %w", err)
	}
	if maps.Equal(current.Data, desired) && current.Annotations[AnnotationSettings] == string(raw) {
		return nil
	}
	annotations := map[string]string{AnnotationSettings: string(raw)}
	if current.ResourceVersion != "" {
		// An apply would leave the keys of others in place.
		updated := current.DeepCopy()
		updated.Data = desired
		updated.Annotations = labels.Merge(current.Annotations, annotations)
		if err := r.runtime.Patch(ctx, updated, client.MergeFrom(current)); err != nil {
			return fmt.Errorf("writing ConfigMap %s: %w", key, err)
		}
		return nil
	}
	config := corev1ac.ConfigMap(key.Name, key.Namespace).
		WithLabels(map[string]string{placement.LabelManagedBy: placement.ManagedBy}).WithAnnotations(annotations).WithData(desired)
	if err := r.runtime.Apply(ctx, config, fieldOwner, client.ForceOwnership); err != nil {
		return fmt.Errorf("writing ConfigMap %s: %w", key, err)
	}
	return nil
}

func (r *reconciler) publishAnnotations(ctx context.Context, spec *sandbarv1alpha1.InfrastructureProviderSpec) error {
	export := &kcpapisv1alpha2.APIExport{}
	if err := r.kcp.Get(ctx, types.NamespacedName{Name: r.opts.ExportName}, export); err != nil {
		return fmt.Errorf("reading APIExport %s: %w", r.opts.ExportName, err)
	}
	updated := export.DeepCopy()
	if updated.Annotations == nil {
		updated.Annotations = map[string]string{}
	}
	for key, value := range ExportAnnotations(spec) {
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

// summarize derives Ready from the others. Without a canary nothing is said of Composing.
func summarize(provider *sandbarv1alpha1.InfrastructureProvider) {
	for _, condition := range []string{
		sandbarv1alpha1.ProviderRuntimeReachable, sandbarv1alpha1.ProviderPlatformPublished, sandbarv1alpha1.ProviderComposing,
	} {
		c := meta.FindStatusCondition(provider.Status.Conditions, condition)
		if c == nil && condition == sandbarv1alpha1.ProviderComposing {
			continue
		}
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
