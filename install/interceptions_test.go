// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	wire "github.com/sandbar-dev/sandbar/apis/intercept"
	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/intercept"
)

func liveService(t *testing.T) *corev1.Service {
	t.Helper()
	s := &corev1.Service{}
	text := `{metadata: {namespace: prod, name: web, labels: {team: shop}, annotations: {note: kept}}, spec: {type: ClusterIP, clusterIP: 10.0.0.7, selector: {app: web, tier: front}, ports: [{port: 80}]}}`
	if err := yaml.Unmarshal([]byte(text), s); err != nil {
		t.Fatal(err)
	}
	return s
}

// proxyDeployment is the Deployment that the controllers make.
func proxyDeployment(t *testing.T) *appsv1.Deployment {
	t.Helper()
	v := &intercept.View{Name: types.NamespacedName{Namespace: "prod", Name: "web"}, Service: liveService(t), Image: "registry.example/proxy:1"}
	v.Routes.Intents = []*intercept.Intent{{UID: "a"}}
	for range 10 {
		step := intercept.Next(v, metav1.Now().Time)
		switch object := step.Object.(type) {
		case *appsv1.Deployment:
			return object
		case *corev1.Service:
			v.Behind = object
		case *policyv1.PodDisruptionBudget:
			v.Budget = object
		default:
			v.Document = step.Text
		}
	}
	t.Fatal("there is no Deployment")
	return nil
}

func proxied(b client.Object) client.Object {
	b.(*sandbarv1alpha1.Baseline).Spec.Routing.Proxy.Enabled = true
	return b
}

func TestTheRightToProxiesIsGivenWhereABaselineAdmitsThem(t *testing.T) {
	a := granting(t, proxied(baselineNamed("shop", "storefront")), baselineNamed("other", "elsewhere"), namespaceNamed("storefront"), namespaceNamed("elsewhere"))
	wanted, err := a.namespacesOf(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.grant(t.Context(), wanted, true); err != nil {
		t.Fatal(err)
	}
	roles, configs, bindings := &rbacv1.RoleList{}, &corev1.ConfigMapList{}, &rbacv1.RoleBindingList{}
	if err := errors.Join(a.client.List(t.Context(), roles), a.client.List(t.Context(), configs), a.client.List(t.Context(), bindings)); err != nil {
		t.Fatal(err)
	}
	var there []string
	for _, role := range roles.Items {
		there = append(there, role.Namespace+"/"+role.Name)
		for _, rule := range role.Rules {
			if role.Name == intercept.Account && (!slices.Equal(rule.ResourceNames, []string{wire.ConfigMap}) || !slices.Equal(rule.Verbs, []string{"get", "list", "watch"})) {
				t.Errorf("a proxy may %+v", rule)
			}
			if slices.Contains(rule.Resources, "secrets") || slices.Contains(rule.Resources, "pods") || slices.Contains(rule.APIGroups, rbacv1.GroupName) {
				t.Errorf("the rights go further: %+v", rule)
			}
		}
	}
	want := []string{"elsewhere/sandbar-baseline", "storefront/sandbar-baseline", "storefront/sandbar-interception", "storefront/sandbar-proxy"}
	if diff := cmp.Diff(want, there); diff != "" || len(configs.Items) != 2 {
		t.Errorf("%s, and %d ConfigMaps", diff, len(configs.Items))
	}
	subjects := map[string]string{"sandbar-interception": "sandbar-system/sandbar-controllers", "sandbar-proxy": "storefront/sandbar-proxy", "sandbar-baseline": "sandbar-system/sandbar-controllers"}
	for _, b := range bindings.Items {
		if got := b.Subjects[0].Namespace + "/" + b.Subjects[0].Name; got != subjects[b.Name] || b.RoleRef.Name != b.Name {
			t.Errorf("%s gives %s to %s", b.Name, b.RoleRef.Name, got)
		}
	}
	a.opts.provider = "another"
	if err := a.grant(t.Context(), wanted, true); !errors.Is(err, ErrOtherProvider) {
		t.Errorf("another provider: %v", err)
	}
}

func TestTheRightToProxiesGoesWithTheServicesRestored(t *testing.T) {
	for _, dryRun := range []bool{true, false} {
		before := liveService(t)
		behind := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "web-sandbar-baseline", Labels: intercept.Labels("web")}}
		workload := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "web"}}
		a := granting(t, intercept.Switched(before, nil), behind, proxyDeployment(t), workload, proxied(baselineNamed("shop", "prod")), namespaceNamed("prod"))
		wanted, err := a.namespacesOf(t.Context(), nil)
		if err == nil {
			err = a.grant(t.Context(), wanted, true)
		}
		if err == nil {
			err = a.withdrawProxies(t.Context(), wanted)
		}
		if err != nil {
			t.Fatal(err)
		}
		now := &corev1.Service{}
		at := client.ObjectKeyFromObject(before)
		if err := a.client.Get(t.Context(), at, now); err != nil || !intercept.IsIntercepted(now) {
			t.Fatalf("%v: what is granted is taken back: %+v", err, now)
		}
		wanted["prod"].proxies, a.opts.DryRun, a.opts.Timeout = false, dryRun, time.Minute
		if err := a.withdrawProxies(t.Context(), wanted); err != nil {
			t.Fatal(err)
		}
		if err := a.client.Get(t.Context(), at, now); err != nil || intercept.HasTraces(now) == !dryRun {
			t.Errorf("dry run %t, %v: %+v", dryRun, err, now)
		}
		roles, deployments, configs := &rbacv1.RoleList{}, &appsv1.DeploymentList{}, &corev1.ConfigMapList{}
		if err := errors.Join(a.client.List(t.Context(), roles), a.client.List(t.Context(), deployments), a.client.List(t.Context(), configs)); err != nil {
			t.Fatal(err)
		}
		if got := len(roles.Items) + len(deployments.Items) + len(configs.Items); dryRun != (got == 3+2+2) || !dryRun && got != 1+1 {
			t.Errorf("dry run %t: %d objects are left", dryRun, got)
		}
	}
}

// The attack: a thief of the controllers' credential takes the label and the provider off the ConfigMaps, which the controllers may
// write, and goes on with proxies after the withdrawal.
func TestTheRightToProxiesIsFoundByTheRoleThatGivesIt(t *testing.T) {
	a := granting(t, proxied(baselineNamed("shop", "prod")), namespaceNamed("prod"))
	wanted, err := a.namespacesOf(t.Context(), nil)
	if err == nil {
		err = a.grant(t.Context(), wanted, true)
	}
	if err != nil {
		t.Fatal(err)
	}
	left := func() (names []string) {
		for _, list := range []client.ObjectList{&rbacv1.RoleBindingList{}, &rbacv1.RoleList{}, &corev1.ConfigMapList{}} {
			if err := a.client.List(t.Context(), list); err != nil {
				t.Fatal(err)
			}
			_ = meta.EachListItem(list, func(o runtime.Object) error {
				if name := o.(client.Object).GetName(); name != "sandbar-baseline" {
					names = append(names, name)
				}
				return nil
			})
		}
		return names
	}
	for _, name := range []string{wire.ConfigMap, intercept.RoutesConfigMap} {
		config := &corev1.ConfigMap{}
		err := a.client.Get(t.Context(), client.ObjectKey{Namespace: "prod", Name: name}, config)
		if config.Labels, config.Annotations = nil, nil; err == nil {
			err = a.client.Update(t.Context(), config)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	wanted["prod"].proxies, a.opts.Timeout = false, time.Minute
	whole, refused := a.client, errors.New("the API server is away")
	a.client = interceptor.NewClient(whole, interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			if obj.GetName() == intercept.RoutesConfigMap {
				return refused
			}
			return c.Delete(ctx, obj, opts...)
		},
	})
	if err := a.withdrawProxies(t.Context(), wanted); !errors.Is(err, refused) {
		t.Fatal(err)
	}
	if got := left(); !slices.Equal(got, []string{"sandbar-interception", intercept.RoutesConfigMap}) {
		t.Errorf("after a failure %v is left", got)
	}
	a.client = whole
	if err := a.withdrawProxies(t.Context(), wanted); err != nil || len(left()) > 0 {
		t.Errorf("%v is left: %v", left(), err)
	}
}

// A proxy that ends still passes what it has begun to the Service behind it.
func TestTheServiceBehindStaysWhileAProxyRuns(t *testing.T) {
	behind := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "web-sandbar-baseline", Labels: intercept.Labels("web")}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "sandbar-proxy-web-0", Labels: intercept.Labels("web")}}
	a := granting(t, behind, proxyDeployment(t), pod)
	a.opts.Timeout = 50 * time.Millisecond
	there := func() bool {
		return a.client.Get(t.Context(), client.ObjectKeyFromObject(behind), &corev1.Service{}) == nil
	}
	if err := a.removeProxies(t.Context(), "prod"); err == nil || !strings.Contains(err.Error(), "pod sandbar-proxy-web-0") || !there() {
		t.Errorf("%v; the Service behind is there: %t", err, there())
	}
	a.opts.Timeout = time.Minute
	a.client = interceptor.NewClient(a.client, interceptor.Funcs{
		Watch: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) (watch.Interface, error) {
			w, err := c.Watch(ctx, list, opts...)
			return w, errors.Join(err, c.Delete(ctx, pod)) // it ends while it is waited for
		},
	})
	if err := a.removeProxies(t.Context(), "prod"); err != nil || there() {
		t.Errorf("%v; the Service behind is there: %t", err, there())
	}
}

func TestServicesAreRestoredFromTheirAnnotationAlone(t *testing.T) {
	before := liveService(t)
	lost := intercept.Switched(before, nil)
	lost.Name, lost.Annotations = "lost", nil
	plain := liveService(t)
	plain.Name = "plain"
	a := granting(t, intercept.Switched(before, nil), lost, plain)
	err := a.restoreServices(t.Context(), "")
	if !errors.Is(err, intercept.ErrSelectorLost) || !strings.Contains(err.Error(), "Service prod/lost") {
		t.Errorf("one that cannot be restored: %v", err)
	}
	if diff := cmp.Diff([]Entry{{"runtime", "Service", "prod/web", Updated}}, a.report.Entries); diff != "" {
		t.Error(diff)
	}
	now := &corev1.Service{}
	if err := a.client.Get(t.Context(), client.ObjectKeyFromObject(before), now); err != nil || !maps.Equal(now.Spec.Selector, before.Spec.Selector) || len(now.Annotations) != 1 {
		t.Errorf("%v: %+v", err, now)
	}
	if a.restoreServices(t.Context(), "elsewhere") != nil || len(a.report.Entries) != 1 {
		t.Errorf("%v", a.report.Entries)
	}
	if _ = a.restoreServices(t.Context(), ""); len(a.report.Entries) != 1 {
		t.Errorf("again: %v", a.report.Entries)
	}
}
