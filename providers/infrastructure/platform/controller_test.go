// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	kcpapisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	krov1alpha1 "github.com/kubernetes-sigs/kro/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/netcheck"
)

func newScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, sandbarv1alpha1.AddToScheme, kcpapisv1alpha2.AddToScheme, krov1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return scheme
}

// counted counts the writes that go through a client.
func counted(writes *int, b *fake.ClientBuilder) client.Client {
	return b.WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			*writes++
			return c.Patch(ctx, obj, patch, opts...)
		},
		Apply: func(ctx context.Context, c client.WithWatch, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			*writes++
			return c.Apply(ctx, obj, opts...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			*writes++
			return c.SubResource(sub).Patch(ctx, obj, patch, opts...)
		},
	}).Build()
}

func newReconciler(t *testing.T, writes *int, inspect func(context.Context) (Runtime, error), objects ...client.Object) *reconciler {
	t.Helper()
	scheme := newScheme(t)
	return &reconciler{
		opts: Options{}.withDefaults(),
		kcp: counted(writes, fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
			WithStatusSubresource(&sandbarv1alpha1.InfrastructureProvider{})),
		runtime: counted(writes, fake.NewClientBuilder().WithScheme(scheme)),
		probe:   newProbe(inspect, time.Minute),
		network: netcheck.New(nil, "", func(context.Context) {}),
	}
}

func provider() *sandbarv1alpha1.InfrastructureProvider {
	return &sandbarv1alpha1.InfrastructureProvider{
		ObjectMeta: metav1.ObjectMeta{Name: "default", Generation: 3},
		Spec:       sandbarv1alpha1.InfrastructureProviderSpec{DataPlane: sandbarv1alpha1.DataPlaneAddress{URL: "https://dp"}},
	}
}

func (r *reconciler) run(t *testing.T) *sandbarv1alpha1.InfrastructureProvider {
	t.Helper()
	key := client.ObjectKey{Name: "default"}
	if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); err != nil {
		t.Fatal(err)
	}
	got := &sandbarv1alpha1.InfrastructureProvider{}
	if err := r.kcp.Get(t.Context(), key, got); err != nil {
		t.Fatal(err)
	}
	return got
}

func TestTheConfigurationIsPublishedAndWrittenOnce(t *testing.T) {
	writes := 0
	fit := func(context.Context) (Runtime, error) { return Runtime{"v1.36.3", "v0.9.4"}, nil }
	export := &kcpapisv1alpha2.APIExport{ObjectMeta: metav1.ObjectMeta{
		Name: "sandbar.dev", Annotations: map[string]string{"other": "stays", AnnotationDataPlaneCA: "stale"},
	}}
	r := newReconciler(t, &writes, fit, provider(), export)
	r.probe.look(t.Context())
	got := r.run(t)
	if !meta.IsStatusConditionTrue(got.Status.Conditions, sandbarv1alpha1.ProviderReady) || got.Status.Runtime.KroVersion != "v0.9.4" {
		t.Errorf("status = %+v, want Ready with kro v0.9.4", got.Status)
	}
	if err := r.kcp.Get(t.Context(), client.ObjectKeyFromObject(export), export); err != nil {
		t.Fatal(err)
	}
	if a := export.Annotations; a["other"] != "stays" || a[AnnotationDataPlaneURL] != "https://dp" || len(a) != 2 {
		t.Errorf("the export's annotations are %v, want other and the URL", a)
	}
	config := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: placement.SystemNamespace, Name: placement.PlatformConfigMap}
	if err := r.runtime.Get(t.Context(), key, config); err != nil {
		t.Fatal(err)
	}
	first := writes
	r.run(t)
	if writes != first {
		t.Errorf("%d writes although nothing has changed", writes-first)
	}
	config.Data["injected"] = "by hand"
	if err := r.runtime.Update(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	r.run(t)
	if err := r.runtime.Get(t.Context(), key, config); err != nil || config.Data["injected"] != "" {
		t.Errorf("a key that somebody added is still there: %v, %v", config.Data, err)
	}
}

func TestTheConditionsSayWhatIsMissing(t *testing.T) {
	unfit := func(err error) func(context.Context) (Runtime, error) {
		return func(context.Context) (Runtime, error) { return Runtime{KubernetesVersion: "v1.36.3"}, err }
	}
	export := &kcpapisv1alpha2.APIExport{ObjectMeta: metav1.ObjectMeta{Name: "sandbar.dev"}}
	contradicting := provider()
	contradicting.Spec.Quota.Min = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("0")}
	for name, tc := range map[string]struct {
		inspect   func(context.Context) (Runtime, error)
		objects   []client.Object
		condition string
		reason    string
	}{
		"kro is missing":       {unfit(ErrKroMissing), []client.Object{provider(), export}, sandbarv1alpha1.ProviderRuntimeReachable, reasonKroMissing},
		"kro is too old":       {unfit(fmt.Errorf("%w: x", ErrKroTooOld)), []client.Object{provider(), export}, sandbarv1alpha1.ProviderRuntimeReachable, reasonKroTooOld},
		"Kubernetes too old":   {unfit(ErrKubernetesTooOld), []client.Object{provider(), export}, sandbarv1alpha1.ProviderRuntimeReachable, reasonKubernetesTooOld},
		"no answer":            {unfit(ErrUnreachable), []client.Object{provider(), export}, sandbarv1alpha1.ProviderRuntimeReachable, reasonUnreachable},
		"the export is absent": {unfit(nil), []client.Object{provider()}, sandbarv1alpha1.ProviderPlatformPublished, reasonExportMissing},
		"a quota of nothing":   {unfit(nil), []client.Object{contradicting, export}, sandbarv1alpha1.ProviderPlatformPublished, reasonMisconfigured},
	} {
		t.Run(name, func(t *testing.T) {
			writes := 0
			r := newReconciler(t, &writes, tc.inspect, tc.objects...)
			r.probe.look(t.Context())
			got := r.run(t)
			for _, condition := range []string{tc.condition, sandbarv1alpha1.ProviderReady} {
				c := meta.FindStatusCondition(got.Status.Conditions, condition)
				if c == nil || c.Status != metav1.ConditionFalse || c.Reason != tc.reason || c.Message == "" || c.ObservedGeneration != 3 {
					t.Errorf("%s = %+v, want False for %s", condition, c, tc.reason)
				}
			}
		})
	}
}

// The runtime cluster is prepared for a level by an administrator of it, who runs init.
func TestALevelThatTheRuntimeClusterRefusesIsTold(t *testing.T) {
	writes := 0
	relaxed := provider()
	relaxed.Spec.Isolation.PodSecurity = "baseline"
	export := &kcpapisv1alpha2.APIExport{ObjectMeta: metav1.ObjectMeta{Name: "sandbar.dev"}}
	fit := func(context.Context) (Runtime, error) { return Runtime{"v1.36.3", "v0.9.4"}, nil }
	r := newReconciler(t, &writes, fit, relaxed, export)
	prepared, tried := false, 0
	r.runtime = interceptor.NewClient(r.runtime.(client.WithWatch), interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			tried++
			if obj.GetLabels()["pod-security.kubernetes.io/enforce"] != "baseline" || len(opts) != 1 || opts[0] != client.DryRunAll {
				t.Errorf("created: %+v with %v", obj, opts)
			}
			if prepared {
				return nil
			}
			return apierrors.NewForbidden(corev1.Resource("namespaces"), obj.GetName(), errors.New(
				"ValidatingAdmissionPolicy 'sandbar-controllers' with binding 'sandbar-controllers' denied request: … (spec.isolation.podSecurity) …"))
		},
	})
	r.probe.look(t.Context())
	key := ctrl.Request{NamespacedName: client.ObjectKey{Name: "default"}}
	if result, err := r.Reconcile(t.Context(), key); err != nil || result.RequeueAfter == 0 {
		t.Errorf("%+v, %v: it is not tried again", result, err)
	}
	got := r.run(t)
	c := meta.FindStatusCondition(got.Status.Conditions, sandbarv1alpha1.ProviderPlatformPublished)
	if c == nil || c.Reason != reasonMisconfigured || !strings.Contains(c.Message, "run sandbar-provider init again") {
		t.Errorf("it says %+v", c)
	}
	prepared = true
	if got := r.run(t); !meta.IsStatusConditionTrue(got.Status.Conditions, sandbarv1alpha1.ProviderReady) || tried != 3 {
		t.Errorf("after %d tries: %+v", tried, got.Status.Conditions)
	}
}

func TestTheProbeWakesTheControllerForNewsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := []error{nil, nil, errors.New("dial tcp: port 1"), errors.New("dial tcp: port 2"), nil}
		looks := 0
		p := newProbe(func(context.Context) (Runtime, error) {
			err := answers[min(looks, len(answers)-1)]
			looks++
			if err != nil {
				return Runtime{}, fmt.Errorf("%w: %w", ErrUnreachable, err)
			}
			return Runtime{"v1.36.3", "v0.9.4"}, nil
		}, time.Minute)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- p.Start(ctx) }()
		start := time.Now()
		for _, want := range []time.Duration{0, 2 * time.Minute, 4 * time.Minute} {
			<-p.changed
			if got := time.Since(start); got != want {
				t.Errorf("woken after %s, want the first look, the loss (once) and the recovery, this one after %s", got, want)
			}
		}
		if found, _, _ := p.last(); found.KroVersion != "v0.9.4" {
			t.Errorf("found = %+v", found)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
