// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package instance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"
	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/place"
)

func TestMain(m *testing.M) {
	logger := logr.Discard()
	if level, err := strconv.Atoi(os.Getenv("SANDBAR_TEST_LOG")); err == nil { // 0, 1, …: logr's verbosity
		logger = funcr.New(func(prefix, args string) { fmt.Fprintln(os.Stderr, prefix, args) },
			funcr.Options{Verbosity: level, LogTimestamp: true})
	}
	log.SetLogger(logger)
	os.Exit(m.Run())
}

// patience is how long a test waits for the servers; on a busy machine they take their time.
const patience = 2 * time.Minute

func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v", what, err)
		}
		<-time.After(50 * time.Millisecond)
	}
}

func TestTwoTenantsGetPlacementsOfTheirOwn(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	p.run(t)
	alice, bob := p.newTenant(t), p.newTenant(t)
	alice.create(t, "web", "red")
	bob.create(t, "web", "blue")

	a, b := alice.waitReady(t, "web"), bob.waitReady(t, "web")
	if got, want := color(a), "red"; got != want {
		t.Errorf("alice sees color %q, want %q", got, want)
	}
	if got, want := color(b), "blue"; got != want {
		t.Errorf("bob sees color %q, want %q", got, want)
	}
	for _, instance := range []*unstructured.Unstructured{a, b} {
		if _, found, _ := unstructured.NestedMap(instance.Object, "status", "controlServiceRef"); found {
			t.Error("a tenant sees the private reference controlServiceRef")
		}
		url, _, _ := unstructured.NestedString(instance.Object, "status", "dataPlane", "url")
		want := "https://sandbar.example.test/dataplane/clusters/" + logicalcluster.From(instance).String() +
			"/namespaces/default/" + p.kind.Resource + "/web"
		if url != want {
			t.Errorf("dataPlane.url = %q, want %q", url, want)
		}
		p.checkPlacement(t, instance)
	}
	if path := p.namespaceOf(t, a).Annotations[placement.AnnotationWorkspacePath]; path != alice.path {
		t.Errorf("the placement says workspace %q, want %q", path, alice.path)
	}

	before := p.reconciles()
	p.quiet(t, before)

	alice.delete(t, "web")
	p.waitGone(t, alice, a)
	if got := p.namespaceOf(t, b); got.DeletionTimestamp != nil {
		t.Error("deleting alice's instance took bob's placement")
	}
	bob.delete(t, "web")
	p.waitGone(t, bob, b)
}

func TestASpecChangeReachesThePlacementAndItsStatusComesBack(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	p.run(t)
	alice := p.newTenant(t)
	alice.create(t, "web", "red")
	alice.waitReady(t, "web")
	alice.patch(t, "web", `{"spec":{"color":"green"}}`)
	eventually(t, "the new color", func() error {
		instance := alice.get(t, "web")
		generation, _, _ := unstructured.NestedInt64(instance.Object, "status", "observedGeneration")
		if color(instance) != "green" || !isReady(instance) || generation != instance.GetGeneration() {
			return fmt.Errorf("status is %v", instance.Object["status"])
		}
		return nil
	})
	alice.patch(t, "web", `{"spec":{"suspended":true}}`)
	eventually(t, "the phase Suspended", func() error {
		if phase, _, _ := unstructured.NestedString(alice.get(t, "web").Object, "status", "phase"); phase != "Suspended" {
			return fmt.Errorf("phase is %q", phase)
		}
		return nil
	})
}

func TestWhatSomebodyChangesInAPlacementIsMadeRightAgain(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	p.run(t)
	alice := p.newTenant(t)
	alice.create(t, "web", "red")
	ns := p.namespaceOf(t, alice.waitReady(t, "web"))
	token := p.token(t, ns.Name)

	policy := &networkingv1.NetworkPolicy{}
	p.getRuntime(t, ns.Name, place.IngressPolicy, policy)
	mustDo(t, p.runtime.Delete(t.Context(), policy))
	eventually(t, "the deleted policy", func() error {
		return p.runtime.Get(t.Context(), types.NamespacedName{Namespace: ns.Name, Name: place.IngressPolicy}, &networkingv1.NetworkPolicy{})
	})

	quota := &corev1.ResourceQuota{}
	p.getRuntime(t, ns.Name, place.NameOfBounds, quota)
	want := quota.Spec.DeepCopy()
	quota.Spec.Hard[corev1.ResourcePods] = *quota.Spec.Hard.Pods()
	before := quota.DeepCopy()
	raised := quota.Spec.Hard[corev1.ResourcePods]
	raised.Add(raised)
	quota.Spec.Hard[corev1.ResourcePods] = raised
	mustDo(t, p.runtime.Patch(t.Context(), quota, client.MergeFrom(before)))
	eventually(t, "the changed quota", func() error {
		p.getRuntime(t, ns.Name, place.NameOfBounds, quota)
		if !equality.Semantic.DeepEqual(*want, quota.Spec) {
			return fmt.Errorf("hard is %v", quota.Spec.Hard)
		}
		return nil
	})
	if got := p.token(t, ns.Name); got != token {
		t.Error("the control token changed")
	}
}

func TestAStrippedFinalizerLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	p.run(t)
	alice := p.newTenant(t)
	alice.create(t, "web", "red")
	old := alice.waitReady(t, "web")
	// The tenant deletes and forces the finalizer away, then uses the name again.
	alice.delete(t, "web")
	_, err := alice.instances.Patch(t.Context(), "web", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	eventually(t, "the deletion", func() error { return mustBeGone(alice.find("web")) })
	alice.create(t, "web", "blue")
	young := alice.waitReady(t, "web")
	if old.GetUID() == young.GetUID() {
		t.Fatal("the test made no new instance")
	}
	eventually(t, "the removal of the former placement", func() error { return p.placementGone(old) })
	p.checkPlacement(t, young)
}

func TestDeletingTheBindingRemovesEveryPlacement(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	p.run(t)
	alice := p.newTenant(t)
	var instances []*unstructured.Unstructured
	for _, name := range []string{"one", "two", "three"} {
		alice.create(t, name, "red")
	}
	for _, name := range []string{"one", "two", "three"} {
		instances = append(instances, alice.waitReady(t, name))
	}
	mustDo(t, alice.client.Delete(t.Context(), alice.binding))
	for _, instance := range instances {
		eventually(t, "the removal after the binding", func() error { return p.placementGone(instance) })
	}
	eventually(t, "the end of the binding", func() error {
		return mustBeGone(nil, alice.client.Get(t.Context(), client.ObjectKeyFromObject(alice.binding), alice.binding.DeepCopy()))
	})
}

func TestABindingThatIsDeletedWhileTheProviderIsDownIsFinishedAfterItsStart(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	stop := p.run(t)
	alice := p.newTenant(t)
	alice.create(t, "web", "red")
	instance := alice.waitReady(t, "web")
	stop()
	mustDo(t, alice.client.Delete(t.Context(), alice.binding))
	p.run(t)
	eventually(t, "the removal after the binding", func() error { return p.placementGone(instance) })
}

func TestTenInstancesBecomeReadyAlthoughTheProviderEndsAmidst(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	stop := p.run(t)
	alice := p.newTenant(t)
	for i := range 10 {
		alice.create(t, fmt.Sprintf("web-%d", i), "red")
	}
	stop()
	p.run(t)
	for i := range 10 {
		p.checkPlacement(t, alice.waitReady(t, fmt.Sprintf("web-%d", i)))
	}
	if got := len(p.placements(t)); got != 10 {
		t.Errorf("%d placements stand for 10 instances", got)
	}
}

func TestAKindStopsWithItsTemplateAndStartsAgain(t *testing.T) {
	p := newProvider(t)
	p.run(t)
	alice := p.newTenant(t)
	alice.create(t, "web", "red")
	alice.waitReady(t, "web")
	running := goroutinesOf("sandbar/providers/infrastructure/instance", "multicluster-provider", "third_party/informers")
	if running == 0 {
		t.Fatal("the test sees no goroutines of a running kind")
	}
	p.deleteTemplate(t)
	eventually(t, "the end of the kind's goroutines", func() error {
		if left := goroutinesOf("multicluster-provider", "third_party/informers"); left != 0 {
			return fmt.Errorf("%d goroutines are left", left)
		}
		return nil
	})
	p.createTemplate(t)
	alice.create(t, "again", "blue")
	alice.waitReady(t, "again")
}

// This and the former test run alone, for they count goroutines.
//
// Invariant 6: nothing grows with the number of workspaces but cache entries.
func TestMoreWorkspacesNeedNoMoreGoroutines(t *testing.T) {
	p := newProvider(t)
	p.run(t)
	count := func() int {
		return goroutinesOf("providers/infrastructure/instance", "multicluster-provider", "third_party/informers", "third_party/reflector")
	}
	first := p.newTenant(t)
	first.create(t, "web", "red")
	first.waitReady(t, "web")
	p.quiet(t, 0)
	before := count()
	if before == 0 {
		t.Fatal("the test sees no goroutines of a running kind")
	}
	for range 4 {
		tn := p.newTenant(t)
		tn.create(t, "web", "red")
		tn.waitReady(t, "web")
	}
	p.quiet(t, 0)
	if after := count(); after != before {
		t.Errorf("%d goroutines for one workspace, %d for five", before, after)
	}
}

func TestTheSweepRemovesAPlacementWithoutAnInstanceAndNoOther(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	p.sweep.Interval, p.sweep.SecondLook, p.sweep.Grace = 500*time.Millisecond, 300*time.Millisecond, time.Second
	stop := p.run(t)
	alice := p.newTenant(t)
	alice.create(t, "web", "red")
	alice.create(t, "kept", "red")
	instance, kept := alice.waitReady(t, "web"), alice.waitReady(t, "kept")
	stop()
	// While the provider is down the tenant takes the finalizer away and deletes.
	alice.patch(t, "web", `{"metadata":{"finalizers":null}}`)
	alice.delete(t, "web")
	eventually(t, "the deletion", func() error { return mustBeGone(alice.find("web")) })
	p.run(t)
	eventually(t, "the sweep", func() error { return p.placementGone(instance) })
	if ns := p.namespaceOf(t, kept); ns.DeletionTimestamp != nil {
		t.Error("the sweep took a placement whose instance lives")
	}
}

// An operator who loses a Template, with its finalizer, has not asked for its tenants' instances to go.
func TestTheSweepKeepsLivePlacementsWhenTheirTemplateIsGone(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	p.sweep.Interval, p.sweep.SecondLook, p.sweep.Grace = 500*time.Millisecond, 300*time.Millisecond, time.Second
	p.run(t)
	alice := p.newTenant(t)
	alice.create(t, "web", "red")
	instance := alice.waitReady(t, "web")
	p.deleteTemplate(t)
	p.sweeps(t, 5)
	if ns := p.namespaceOf(t, instance); ns.DeletionTimestamp != nil {
		t.Error("the sweep took a placement whose instance lives, because its Template is gone")
	}
	// And when nobody can say any more what kind it was.
	export := object("apis.kcp.io/v1alpha2", "APIExport", "sandbar.dev")
	mustDo(t, p.client.Get(t.Context(), client.ObjectKeyFromObject(export), export))
	withdrawn := export.DeepCopy()
	unstructured.RemoveNestedField(withdrawn.Object, "spec", "resources")
	mustDo(t, p.client.Patch(t.Context(), withdrawn, client.MergeFrom(export)))
	p.sweeps(t, 5)
	if ns := p.namespaceOf(t, instance); ns.DeletionTimestamp != nil {
		t.Error("the sweep took a placement that kcp cannot be asked about")
	}
	eventually(t, "the count of what kcp cannot be asked about", func() error { // another test's sweep begins it anew
		if got := registered(t, "sandbar_sweep_unknown_placements", p.template.Name); got != 1 {
			return fmt.Errorf("it is %v", got)
		}
		return nil
	})
}

// registered is the value of a metric of another package with one label; 0 without one.
func registered(t *testing.T, name, label string) float64 {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(families, func(f *dto.MetricFamily) bool { return f.GetName() == name })
	if at < 0 {
		return 0
	}
	for _, m := range families[at].GetMetric() {
		if m.GetLabel()[0].GetValue() == label {
			return m.GetGauge().GetValue() + m.GetCounter().GetValue() // it is one of the two
		}
	}
	return 0
}

// sweeps waits until that many more sweeps have had a complete look; other tests' count, too.
func (p *provider) sweeps(t *testing.T, n float64) {
	t.Helper()
	rounds := func() (sum float64) {
		for _, result := range []string{"clean", "deleted", "refused"} {
			sum += registered(t, "sandbar_sweep_rounds_total", result)
		}
		return sum
	}
	before := rounds()
	eventually(t, "sweeps", func() error {
		if now := rounds(); now < before+n {
			return fmt.Errorf("%v rounds, want %v", now, before+n)
		}
		return nil
	})
}

func TestTheProvidersSettingsReachEveryPlacement(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	p.run(t)
	alice := p.newTenant(t)
	alice.create(t, "web", "red")
	ns := p.namespaceOf(t, alice.waitReady(t, "web"))
	infrastructure := &sandbarv1alpha1.InfrastructureProvider{}
	mustDo(t, p.client.Get(t.Context(), types.NamespacedName{Name: "default"}, infrastructure))
	before := infrastructure.DeepCopy()
	infrastructure.Spec.Isolation.ProviderCIDRs = []string{"192.0.2.7/32"}
	infrastructure.Spec.DataPlane.URL = "https://other.example.test"
	mustDo(t, p.client.Patch(t.Context(), infrastructure, client.MergeFrom(before)))
	eventually(t, "the new isolation", func() error {
		policy := &networkingv1.NetworkPolicy{}
		p.getRuntime(t, ns.Name, place.IngressPolicy, policy)
		for _, peer := range policy.Spec.Ingress[0].From {
			if peer.IPBlock != nil && peer.IPBlock.CIDR == "192.0.2.7/32" {
				return nil
			}
		}
		return errors.New("the policy does not admit the new address")
	})
	eventually(t, "the new address", func() error {
		url, _, _ := unstructured.NestedString(alice.get(t, "web").Object, "status", "dataPlane", "url")
		if !strings.HasPrefix(url, "https://other.example.test/") {
			return fmt.Errorf("dataPlane.url is %q", url)
		}
		return nil
	})
}

func isReady(instance *unstructured.Unstructured) bool {
	status, err := outcome.ReadStatus(instance)
	return err == nil && meta.IsStatusConditionTrue(status.Conditions, sandbarv1alpha1.InstanceReadyCondition)
}

func color(instance *unstructured.Unstructured) string {
	value, _, _ := unstructured.NestedString(instance.Object, "status", "color")
	return value
}

func mustDo(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func mustBeGone(_ any, err error) error {
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	default:
		return errors.New("it is still there")
	}
}

// reconciles is how many reconciles of the provider's kind have happened.
func (p *provider) reconciles() float64 {
	var sum float64
	for _, outcome := range []string{"ok", "error"} {
		var metric dto.Metric
		_ = reconcilesTotal.WithLabelValues(p.template.Name, outcome).Write(&metric)
		sum += metric.GetCounter().GetValue()
	}
	return sum
}

// quiet waits until the reconciles have come to rest and then checks that they stay there.
func (p *provider) quiet(t *testing.T, before float64) {
	t.Helper()
	const rest = 3 * time.Second
	eventually(t, "rest", func() error {
		before = p.reconciles()
		<-time.After(rest)
		if after := p.reconciles(); after != before {
			return fmt.Errorf("%v reconciles in %s at rest", after-before, rest)
		}
		return nil
	})
}

// checkPlacement checks that everything of a placement is there and is the instance's.
func (p *provider) checkPlacement(t *testing.T, instance *unstructured.Unstructured) {
	t.Helper()
	id := placement.ID{Origin: logicalcluster.From(instance).String(), UID: instance.GetUID()}
	ns := id.Namespace()
	for name, obj := range map[string]client.Object{
		placement.ControlSecret: &corev1.Secret{},
		place.NameOfBounds:      &corev1.ResourceQuota{},
		place.IngressPolicy:     &networkingv1.NetworkPolicy{},
		place.EgressPolicy:      &networkingv1.NetworkPolicy{},
		instance.GetName():      p.kind.NewObject(),
	} {
		p.getRuntime(t, ns, name, obj)
		if err := id.Locate().Check(obj); err != nil {
			t.Errorf("%T %s: %v", obj, name, err)
		}
	}
	limits := &corev1.LimitRange{}
	p.getRuntime(t, ns, place.NameOfBounds, limits)
	if diff := cmp.Diff("restricted", p.namespaceOf(t, instance).Labels["pod-security.kubernetes.io/enforce"]); diff != "" {
		t.Errorf("pod security (-want +got):\n%s", diff)
	}
}

func (p *provider) getRuntime(t *testing.T, namespace, name string, obj client.Object) {
	t.Helper()
	mustDo(t, p.runtime.Get(t.Context(), types.NamespacedName{Namespace: namespace, Name: name}, obj))
}

func (p *provider) namespaceOf(t *testing.T, instance *unstructured.Unstructured) *corev1.Namespace {
	t.Helper()
	id := placement.ID{Origin: logicalcluster.From(instance).String(), UID: instance.GetUID()}
	ns := &corev1.Namespace{}
	p.getRuntime(t, "", id.Namespace(), ns)
	return ns
}

func (p *provider) placementGone(instance *unstructured.Unstructured) error {
	id := placement.ID{Origin: logicalcluster.From(instance).String(), UID: instance.GetUID()}
	return mustBeGone(nil, p.runtime.Get(context.Background(), types.NamespacedName{Name: id.Namespace()}, &corev1.Namespace{}))
}

func (p *provider) waitGone(t *testing.T, of *tenant, instance *unstructured.Unstructured) {
	t.Helper()
	eventually(t, "the removal of the placement", func() error { return p.placementGone(instance) })
	eventually(t, "the removal of the instance", func() error { return mustBeGone(of.find(instance.GetName())) })
}

func (p *provider) placements(t *testing.T) []corev1.Namespace {
	t.Helper()
	var list corev1.NamespaceList
	mustDo(t, p.runtime.List(t.Context(), &list, client.MatchingLabels{placement.LabelTemplate: p.template.Name}))
	return list.Items
}

func (p *provider) token(t *testing.T, namespace string) string {
	t.Helper()
	secret := &corev1.Secret{}
	p.getRuntime(t, namespace, placement.ControlSecret, secret)
	return string(secret.Data[placement.ControlTokenKey])
}
