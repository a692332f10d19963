// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"encoding/json"
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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	wire "github.com/sandbar-dev/sandbar/apis/intercept"
	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/intercept"
	"github.com/sandbar-dev/sandbar/pkg/placement"
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

// asMap is an object as the API server shows it to a policy.
func asMap(t *testing.T, object any) map[string]any {
	t.Helper()
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	fields := map[string]any{}
	if err := json.Unmarshal(text, &fields); err != nil {
		t.Fatal(err)
	}
	return fields
}

// interceptionVerdict is what both policies of the controllers say to a write in a namespace of a Baseline.
func interceptionVerdict(t *testing.T, operation, what, namespace, name string, before, after any) string {
	t.Helper()
	all := policies(t, func(o *Options) { o.proxyImage = "registry.example/proxy:1" })
	group, resource, _ := strings.Cut(what, "/")
	for _, policy := range []string{"sandbar-controllers", "sandbar-interception"} {
		if resource == "configmaps" && policy == "sandbar-interception" {
			continue // it is not about these
		}
		input := map[string]any{"object": nil, "oldObject": nil, "request": map[string]any{
			"userInfo": map[string]any{"username": controllersUser}, "operation": operation, "namespace": namespace, "name": name,
			"resource": map[string]any{"group": group, "resource": resource}, "subResource": "",
		}, "namespaceObject": map[string]any{"metadata": map[string]any{}}}
		if before != nil {
			input["oldObject"] = asMap(t, before)
		}
		if after != nil {
			input["object"] = asMap(t, after)
		}
		if said := verdict(t, all[policy], input); said != "" {
			return said
		}
	}
	return ""
}

// A thief of the credential of the controllers may have the operator's proxies stand in front of a Service, and nothing else.
func TestAdmissionLeavesOfAServiceItsSelectorAloneAndNoOther(t *testing.T) {
	before := liveService(t)
	switched := intercept.Switched(before, nil)
	behind := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "web-sandbar-baseline", Labels: intercept.Labels("web")}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"}}}
	edit := func(s *corev1.Service, change func(s *corev1.Service)) *corev1.Service {
		s = s.DeepCopy()
		change(s)
		return s
	}
	merged := edit(switched, func(s *corev1.Service) { s.Spec.Selector["app"] = "web2" })
	mergedAll := edit(merged, func(s *corev1.Service) { s.Spec.Selector["tier"], s.Spec.Selector["x"] = "back", "y" })
	restored := func(s *corev1.Service) *corev1.Service {
		r, err := intercept.Restored(s, nil)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	other := func(selector map[string]string) func(s *corev1.Service) {
		return func(s *corev1.Service) { s.Spec.Selector = selector }
	}
	const alone, back = "selector alone", "and back"
	for name, c := range map[string]struct {
		before, after *corev1.Service
		want          string
	}{
		"the switch":       {before, switched, ""},
		"the switch again": {switched, edit(switched, func(s *corev1.Service) { s.ResourceVersion = "9" }), ""},
		"the restore":      {switched, restored(switched), ""},
		"the restore of what somebody has merged": {merged, restored(merged), ""},
		"the restore of all that is merged":       {mergedAll, restored(mergedAll), ""},
		"the switch of what somebody has merged":  {mergedAll, intercept.Switched(mergedAll, nil), ""},
		"a restore of what is merged, alone":      {merged, edit(before, other(map[string]string{"app": "web2"})), back},
		"a restore of what was":                   {merged, before, back},
		"a restore of less than is merged":        {mergedAll, edit(before, other(map[string]string{"app": "web2", "tier": "back"})), back},
		"a restore of more than is merged":        {merged, edit(before, other(map[string]string{"app": "web2", "tier": "front", "x": "y"})), back},
		"a restore of another value of what was":  {merged, edit(before, other(map[string]string{"app": "web2", "tier": "thief"})), back},
		"a restore of a part of a value that was": {merged, edit(before, other(map[string]string{"app": "web2", "tier": "fro"})), back},
		"a restore of a part of a key that was":   {merged, edit(before, other(map[string]string{"app": "web2", "ier": "front"})), back},
		"a restore that keeps the annotation":     {merged, edit(before, func(s *corev1.Service) { s.Spec.Selector["app"], s.Annotations = "web2", merged.Annotations }), back},
		"the switch of what somebody has changed": {edit(switched, other(map[string]string{"app": "x"})), intercept.Switched(edit(switched, other(map[string]string{"app": "x"})), nil), ""},
		"an annotation that is left over goes":    {edit(switched, other(map[string]string{"app": "x"})), edit(before, other(map[string]string{"app": "x"})), ""},
		"another selector":                        {before, edit(before, other(map[string]string{"app": "thief"})), back},
		"the proxies of another Service":          {before, edit(switched, other(map[string]string{intercept.LabelService: "api"})), back},
		"the proxies with something else":         {before, edit(switched, func(s *corev1.Service) { s.Spec.Selector["app"] = "thief" }), back},
		"an annotation that says something else":  {before, edit(switched, func(s *corev1.Service) { s.Annotations[intercept.AnnotationOriginal] = `{"app":"thf","tier":"front"}` }), back},
		"an annotation that says more": {before, edit(switched, func(s *corev1.Service) {
			s.Annotations[intercept.AnnotationOriginal] = `{"app":"web","tier":"front","x":"y"}`
		}), back},
		"an annotation that says less":        {before, edit(switched, func(s *corev1.Service) { s.Annotations[intercept.AnnotationOriginal] = `{"app":"web"}` }), back},
		"no annotation":                       {before, edit(switched, func(s *corev1.Service) { s.Annotations = before.Annotations }), back},
		"an annotation that is changed later": {switched, edit(switched, func(s *corev1.Service) { s.Annotations[intercept.AnnotationOriginal] = `{"app":"thief"}` }), back},
		"a restore to something else":         {switched, edit(before, other(map[string]string{"app": "thief", "tier": "front"})), back},
		"a restore to less":                   {switched, edit(before, other(map[string]string{"app": "web"})), back},
		"a restore to nothing":                {switched, edit(before, other(nil)), back},
		"other ports with the switch":         {before, edit(switched, func(s *corev1.Service) { s.Spec.Ports[0].Port = 81 }), alone},
		"another address":                     {before, edit(switched, func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"8.8.8.8"} }), alone},
		"another type":                        {before, edit(switched, func(s *corev1.Service) { s.Spec.Type = "LoadBalancer" }), alone},
		"a label":                             {before, edit(switched, func(s *corev1.Service) { s.Labels["x"] = "y" }), alone},
		"an annotation of others":             {before, edit(switched, func(s *corev1.Service) { s.Annotations["note"] = "other" }), alone},
		"without an annotation of others":     {before, edit(switched, func(s *corev1.Service) { delete(s.Annotations, "note") }), alone},
		"an owner":                            {before, edit(switched, func(s *corev1.Service) { s.OwnerReferences = []metav1.OwnerReference{{Name: "x"}} }), alone},
		"nothing of an interception":          {before, edit(before, func(s *corev1.Service) { s.Labels["x"] = "y" }), alone},
		"the Service behind":                  {behind, edit(behind, other(map[string]string{"app": "web2"})), ""},
		"the Service behind, for the world":   {behind, edit(behind, func(s *corev1.Service) { s.Spec.Type = "NodePort" }), back},
	} {
		t.Run(name, func(t *testing.T) {
			if got := interceptionVerdict(t, "UPDATE", "/services", "prod", c.after.Name, c.before, c.after); c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("it says %q, want %q", got, c.want)
			}
		})
	}
	for name, c := range map[string]struct {
		operation, namespace string
		object               *corev1.Service
		want                 string
	}{
		"a Service behind comes":               {"CREATE", "prod", behind, ""},
		"and goes":                             {"DELETE", "prod", behind, ""},
		"no other comes":                       {"CREATE", "prod", before, back},
		"nor goes":                             {"DELETE", "prod", before, back},
		"nor one that is called so":            {"DELETE", "prod", edit(before, func(s *corev1.Service) { s.Name = "x-sandbar-baseline" }), back},
		"nor one with an address of its own":   {"CREATE", "prod", edit(behind, func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"8.8.8.8"} }), back},
		"nor one without a selector":           {"CREATE", "prod", edit(behind, other(nil)), back},
		"nor one in a placement":               {"CREATE", ourPlacement, behind, "in namespaces of Baselines only"},
		"nor one in the provider's own":        {"CREATE", placement.SystemNamespace, behind, "in namespaces of Baselines only"},
		"nor one that another name stands for": {"CREATE", "prod", edit(behind, func(s *corev1.Service) { s.Name = "web" }), back},
	} {
		t.Run(name, func(t *testing.T) {
			var old, now any = nil, c.object
			if c.operation == "DELETE" {
				old, now = c.object, nil
			}
			if got := interceptionVerdict(t, c.operation, "/services", c.namespace, c.object.Name, old, now); c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("it says %q, want %q", got, c.want)
			}
		})
	}
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

func TestAdmissionLeavesTheProxiesTheirOwnPodsAlone(t *testing.T) {
	const proxies = "make proxies only"
	for name, c := range map[string]struct {
		change func(d *appsv1.Deployment, pod *corev1.PodSpec)
		want   string
	}{
		"as the controllers make it": {func(*appsv1.Deployment, *corev1.PodSpec) {}, ""},
		"another image":              {func(_ *appsv1.Deployment, p *corev1.PodSpec) { p.Containers[0].Image = "thief" }, proxies},
		"a command":                  {func(_ *appsv1.Deployment, p *corev1.PodSpec) { p.Containers[0].Command = []string{"sh"} }, proxies},
		"a variable":                 {func(_ *appsv1.Deployment, p *corev1.PodSpec) { p.Containers[0].Env = []corev1.EnvVar{{Name: "a"}} }, proxies},
		"variables of a Secret":      {func(_ *appsv1.Deployment, p *corev1.PodSpec) { p.Containers[0].EnvFrom = []corev1.EnvFromSource{{}} }, proxies},
		"a volume":                   {func(_ *appsv1.Deployment, p *corev1.PodSpec) { p.Volumes = []corev1.Volume{{Name: "a"}} }, proxies},
		"another identity":           {func(_ *appsv1.Deployment, p *corev1.PodSpec) { p.ServiceAccountName = "default" }, proxies},
		"another container":          {func(_ *appsv1.Deployment, p *corev1.PodSpec) { p.Containers = append(p.Containers, p.Containers[0]) }, proxies},
		"a container before":         {func(_ *appsv1.Deployment, p *corev1.PodSpec) { p.InitContainers = p.Containers }, proxies},
		"the node's network":         {func(_ *appsv1.Deployment, p *corev1.PodSpec) { p.HostNetwork = true }, proxies},
		"a port of the node":         {func(_ *appsv1.Deployment, p *corev1.PodSpec) { p.Containers[0].Ports[0].HostPort = 80 }, proxies},
		"privileges":                 {func(_ *appsv1.Deployment, p *corev1.PodSpec) { p.Containers[0].SecurityContext.Privileged = new(true) }, proxies},
		"more privileges later": {func(_ *appsv1.Deployment, p *corev1.PodSpec) {
			p.Containers[0].SecurityContext.AllowPrivilegeEscalation = nil
		}, proxies},
		"root":                     {func(_ *appsv1.Deployment, p *corev1.PodSpec) { p.SecurityContext.RunAsNonRoot = nil }, proxies},
		"a hook":                   {func(_ *appsv1.Deployment, p *corev1.PodSpec) { p.Containers[0].Lifecycle = &corev1.Lifecycle{} }, proxies},
		"the labels of a database": {func(d *appsv1.Deployment, _ *corev1.PodSpec) { d.Spec.Template.Labels["app"] = "db" }, proxies},
		"another name":             {func(d *appsv1.Deployment, _ *corev1.PodSpec) { d.Name = "web" }, "of their proxies only"},
		"without its labels":       {func(d *appsv1.Deployment, _ *corev1.PodSpec) { d.Labels = nil }, "of their proxies only"},
	} {
		t.Run(name, func(t *testing.T) {
			d := proxyDeployment(t)
			c.change(d, &d.Spec.Template.Spec)
			if got := interceptionVerdict(t, "CREATE", "apps/deployments", "prod", d.Name, nil, d); c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("it says %q, want %q", got, c.want)
			}
		})
	}
	web := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "web"}}
	if got := interceptionVerdict(t, "DELETE", "apps/deployments", "prod", "web", web, nil); !strings.Contains(got, "of their proxies only") {
		t.Errorf("a workload is deleted: %q", got)
	}
	for name, want := range map[string]string{wire.ConfigMap: "", intercept.RoutesConfigMap: "", "settings": "immutable copies"} {
		config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: name}}
		if got := interceptionVerdict(t, "UPDATE", "/configmaps", "prod", name, config, config); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("ConfigMap %s: %q", name, got)
		}
	}
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
