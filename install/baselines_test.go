// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"

	"github.com/sandbar-dev/sandbar/apis/crds"
	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/baseline"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// baselineProblems are what the API server of the provider workspace says to a Baseline.
func baselineProblems(t *testing.T, object map[string]any) string {
	t.Helper()
	raw, err := crds.Files.ReadFile("sandbar.dev_baselines.yaml")
	if err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(raw, crd); err != nil {
		t.Fatal(err)
	}
	var internal apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(crd.Spec.Versions[0].Schema.OpenAPIV3Schema, &internal, nil); err != nil {
		t.Fatal(err)
	}
	structural, err := structuralschema.NewStructural(&internal)
	if err != nil {
		t.Fatal(err)
	}
	validator, _, err := validation.NewSchemaValidator(&internal)
	if err != nil {
		t.Fatal(err)
	}
	problems := validation.ValidateCustomResource(nil, object, validator)
	problems = append(problems, listtype.ValidateListSetsAndMaps(nil, structural, object)...)
	rules, _ := cel.NewValidator(structural, true, celconfig.PerCallLimit).Validate(t.Context(), nil, structural, object, nil, celconfig.RuntimeCELCostBudget)
	return fmt.Sprint(append(problems, rules...).ToAggregate())
}

func TestASchemaRefusesABaselineThatCannotBe(t *testing.T) {
	many := func(n int, format string) string {
		var items []string
		for i := range n {
			items = append(items, fmt.Sprintf(format, i))
		}
		return "[" + strings.Join(items, ", ") + "]"
	}
	for name, c := range map[string]struct{ spec, want string }{
		"the least":                               {"namespaces: [{name: storefront}]", "<nil>"},
		"all fields":                              {"{namespaces: [{name: a, as: b}, {name: b, as: a}], workspaces: [{path: 'root:acme', recursive: true}], workloads: {kinds: [Rollout], names: [x]}, services: {names: [x]}, disclosure: Template}", "<nil>"},
		"no namespaces":                           {"namespaces: []", "spec.namespaces"},
		"32 namespaces":                           {"namespaces: " + many(32, "{name: a%d}"), "<nil>"},
		"33 namespaces":                           {"namespaces: " + many(33, "{name: a%d}"), "must have at most 32 items"},
		"a namespace twice":                       {"namespaces: [{name: a}, {name: a, as: b}]", "Duplicate value"},
		"an alias twice":                          {"namespaces: [{name: a, as: x}, {name: b, as: x}]", "two namespaces must not have the same alias: set as of one of them"},
		"an alias that is another's name":         {"namespaces: [{name: a}, {name: b, as: a}]", "two namespaces must not have the same alias"},
		"Kubernetes' own":                         {"namespaces: [{name: kube-system}]", "is a namespace of Kubernetes, kro or Sandbar"},
		"kro's":                                   {"namespaces: [{name: kro-system}]", "is a namespace of Kubernetes, kro or Sandbar"},
		"the provider's":                          {"namespaces: [{name: sandbar-blue-system}]", "is a namespace of Kubernetes, kro or Sandbar"},
		"a placement":                             {"namespaces: [{name: sb-abcdefghijklmnopqrstuvwxyz}]", "is a namespace of Kubernetes, kro or Sandbar"},
		"a name that is none":                     {"namespaces: [{name: Storefront}]", "spec.namespaces[0].name"},
		"a workspace that is not a path":          {"{namespaces: [{name: a}], workspaces: [{path: acme}]}", "spec.workspaces[0].path"},
		"a workspace with a wildcard":             {"{namespaces: [{name: a}], workspaces: [{path: 'root:*'}]}", "spec.workspaces[0].path"},
		"an empty workspace":                      {"{namespaces: [{name: a}], workspaces: [{path: ''}]}", "spec.workspaces[0].path"},
		"257 workspaces":                          {"{namespaces: [{name: a}], workspaces: " + many(257, "{path: 'root:a%d'}") + "}", "must have at most 256 items"},
		"a kind that cannot be copied":            {"{namespaces: [{name: a}], workloads: {kinds: [DaemonSet]}}", "Unsupported value"},
		"201 names":                               {"{namespaces: [{name: a}], workloads: {names: " + many(201, "a%d") + "}}", "must have at most 200 items"},
		"a disclosure that there is not":          {"{namespaces: [{name: a}], disclosure: All}", "spec.disclosure"},
		"a description of more than a page":       {"{namespaces: [{name: a}], description: " + strings.Repeat("x", 2049) + "}", "spec.description"},
		"the rules of copies":                     {"{namespaces: [{name: a}], images: {allow: ['ghcr.io/acme/*', nginx, 'localhost:5000/a/*/b']}, references: {secrets: {policy: Copy, names: [db]}, volumes: EmptyDir}, network: {reachBaseline: false}, podSecurity: baseline, limits: {replicas: 5}}", "<nil>"},
		"images of all paths below one":           {"{namespaces: [{name: a}], images: {allow: ['ghcr.io/acme/**']}}", "write a * for each segment"},
		"an image with a tag":                     {"{namespaces: [{name: a}], images: {allow: ['nginx:1']}}", "spec.images.allow[0]"},
		"a policy that there is not":              {"{namespaces: [{name: a}], references: {secrets: {policy: Share}}}", "Unsupported value"},
		"an identity on the runtime cluster":      {"{namespaces: [{name: a}], references: {serviceAccount: Same}}", "Unsupported value"},
		"a level that there is not":               {"{namespaces: [{name: a}], podSecurity: none}", "Unsupported value"},
		"copies without replicas":                 {"{namespaces: [{name: a}], limits: {replicas: 0}}", "greater than or equal to 1"},
		"where requests may be routed":            {"{namespaces: [{name: a}], routing: {gateway: {parentRefs: [{namespace: infra, name: public}, {namespace: infra, name: public, sectionName: https}], hostnames: [shop.example.com, '*.example.com']}}}", "<nil>"},
		"proxies":                                 {"{namespaces: [{name: a}], routing: {proxy: {enabled: true}}}", "<nil>"},
		"proxies by a word":                       {"{namespaces: [{name: a}], routing: {proxy: {enabled: 'yes'}}}", "spec.routing.proxy.enabled"},
		"16 Gateways and 64 hostnames":            {"{namespaces: [{name: a}], routing: {gateway: {parentRefs: " + many(16, "{namespace: infra, name: a%d}") + ", hostnames: " + many(64, "a%d.example.com") + "}}}", "<nil>"},
		"17 Gateways":                             {"{namespaces: [{name: a}], routing: {gateway: {parentRefs: " + many(17, "{namespace: infra, name: a%d}") + "}}}", "must have at most 16 items"},
		"65 hostnames":                            {"{namespaces: [{name: a}], routing: {gateway: {hostnames: " + many(65, "a%d.example.com") + "}}}", "must have at most 64 items"},
		"all hostnames":                           {"{namespaces: [{name: a}], routing: {gateway: {hostnames: ['*']}}}", "spec.routing.gateway.hostnames[0]"},
		"a hostname in capitals":                  {"{namespaces: [{name: a}], routing: {gateway: {hostnames: [Shop.example.com]}}}", "spec.routing.gateway.hostnames[0]"},
		"a hostname twice":                        {"{namespaces: [{name: a}], routing: {gateway: {hostnames: [a.example.com, a.example.com]}}}", "Duplicate value"},
		"a Gateway without its namespace":         {"{namespaces: [{name: a}], routing: {gateway: {parentRefs: [{name: public}]}}}", "spec.routing.gateway.parentRefs[0].namespace"},
		"a name that is too long for a DNS label": {"namespaces: [{name: " + strings.Repeat("a", 64) + "}]", "spec.namespaces[0].name"},
	} {
		t.Run(name, func(t *testing.T) {
			var spec any
			if err := yaml.Unmarshal([]byte(c.spec), &spec); err != nil {
				t.Fatal(err)
			}
			if got := baselineProblems(t, map[string]any{"spec": spec}); !strings.Contains(got, c.want) || c.want == "<nil>" && got != c.want {
				t.Errorf("it says %s, want %s", got, c.want)
			}
		})
	}
}

// The rule of the CRD and the one that is asked again before rights are given say the same.
func TestTheReservedNamespacesAreThoseOfTheSchema(t *testing.T) {
	for _, name := range []string{"kube-a", "kro-a", "sandbar-a", "sb-a", "storefront", "kubernetes", "sbom", "default", "a-kube-b"} {
		refused := strings.Contains(baselineProblems(t, map[string]any{"spec": map[string]any{"namespaces": []any{map[string]any{"name": name}}}}), "cannot be part")
		if refused != baseline.Reserved(name) {
			t.Errorf("%s: the schema refuses it: %t, and pkg/baseline %t", name, refused, !refused)
		}
	}
}

func TestTheExampleOfABaselineIsValid(t *testing.T) {
	raw, err := os.ReadFile("../examples/operator/baseline.yaml")
	if err != nil {
		t.Fatal(err)
	}
	b := &sandbarv1alpha1.Baseline{}
	if err := yaml.UnmarshalStrict(raw, b); err != nil {
		t.Fatal(err)
	}
	object := map[string]any{}
	if err := yaml.Unmarshal(raw, &object); err != nil {
		t.Fatal(err)
	}
	if got := baselineProblems(t, object); got != "<nil>" {
		t.Error(got)
	}
}

// granting is what grants read and write: both sides in one client.
func granting(t *testing.T, objects ...client.Object) *applier {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), sandbarv1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
	return &applier{where: "runtime", system: placement.SystemNamespace, client: c, opts: testOptions(), report: &Report{}}
}

func namespaceNamed(name string) client.Object {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func baselineNamed(name string, namespaces ...string) client.Object {
	b := &sandbarv1alpha1.Baseline{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, n := range namespaces {
		b.Spec.Namespaces = append(b.Spec.Namespaces, sandbarv1alpha1.BaselineNamespace{Name: n})
	}
	return b
}

func roleIn(namespace, name string) client.Object {
	return &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{placement.LabelManagedBy: placement.ManagedBy}}}
}

func TestRightsAreGivenInTheNamespacesOfBaselinesAlone(t *testing.T) {
	a := granting(t, baselineNamed("shop", "storefront", "payments"), baselineNamed("other", "elsewhere"),
		namespaceNamed("storefront"), namespaceNamed("payments"), namespaceNamed("elsewhere"))
	wanted, err := a.namespacesOf(t.Context(), []string{"shop"})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.grant(t.Context(), wanted, true); err != nil {
		t.Fatal(err)
	}
	var roles rbacv1.RoleList
	var bindings rbacv1.RoleBindingList
	if err := errors.Join(a.client.List(t.Context(), &roles), a.client.List(t.Context(), &bindings)); err != nil {
		t.Fatal(err)
	}
	var in []string
	for _, role := range roles.Items {
		in = append(in, role.Namespace)
		for _, rule := range role.Rules {
			one := slices.Equal(rule.Verbs, []string{"get"}) && (slices.Equal(rule.Resources, []string{"configmaps"}) || slices.Equal(rule.Resources, []string{"persistentvolumeclaims"}))
			if !one && (!slices.Equal(rule.Verbs, []string{"get", "list", "watch"}) || len(rule.Resources) == 0 ||
				slices.ContainsFunc(rule.Resources, func(r string) bool { return r == "*" || r == "secrets" || r == "configmaps" || r == "pods" })) {
				t.Errorf("the rights go further: %+v", rule)
			}
		}
	}
	if diff := cmp.Diff([]string{"payments", "storefront"}, in); diff != "" || len(roles.Items[0].Rules) != 5 {
		t.Errorf("%s %+v", diff, roles.Items)
	}
	want := []rbacv1.Subject{{Kind: "ServiceAccount", Name: "sandbar-controllers", Namespace: "sandbar-system"}}
	for _, binding := range bindings.Items {
		if diff := cmp.Diff(want, binding.Subjects); diff != "" || binding.RoleRef.Kind != "Role" || binding.RoleRef.Name != "sandbar-baseline" {
			t.Errorf("%s %+v", diff, binding)
		}
	}
	if len(bindings.Items) != 2 {
		t.Errorf("%d bindings", len(bindings.Items))
	}
}

// An administrator who runs grant has all rights: a mistake, or a Baseline of somebody else, must not spend them.
func TestWhatAGrantRefuses(t *testing.T) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: placement.SystemNamespace, Name: controllersAccount}}
	a := granting(t, baselineNamed("system", "storefront", "kube-system"), baselineNamed("shop", "storefront"), namespaceNamed("storefront"), namespaceNamed("kube-system"))
	if _, err := a.namespacesOf(t.Context(), []string{"system"}); !errors.Is(err, ErrReservedNamespace) {
		t.Errorf("kube-system: %v", err)
	}
	if _, err := a.namespacesOf(t.Context(), nil); !errors.Is(err, ErrReservedNamespace) {
		t.Errorf("kube-system among all: %v", err)
	}
	if _, err := a.namespacesOf(t.Context(), []string{"nosuch"}); !errors.Is(err, ErrNoBaseline) || !strings.Contains(err.Error(), "has: shop, system") {
		t.Errorf("an unknown name: %v", err)
	}
	if err := a.grant(t.Context(), map[string]*opened{"gone": {by: "shop", need: granted{}}, "storefront": {by: "shop", need: granted{}}}, true); err == nil || !strings.Contains(err.Error(), "no namespace gone, which Baseline shop names") {
		t.Errorf("a namespace that is not there: %v", err)
	}
	if len(a.report.Entries) != 2 {
		t.Errorf("the namespace that is there has got %v", a.report.Entries)
	}
	if err := a.checkControllers(t.Context()); !errors.Is(err, ErrNotInstalled) {
		t.Errorf("without the ServiceAccount: %v", err)
	}
	if err := granting(t, account).checkControllers(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestRightsAreTakenBackWhereNoBaselineIs(t *testing.T) {
	for dryRun, want := range map[bool][]string{
		false: {"elsewhere/sandbar-blue-baseline", "elsewhere/sandbar-controllers", "storefront/sandbar-baseline"},
		true:  {"elsewhere/sandbar-baseline", "elsewhere/sandbar-blue-baseline", "elsewhere/sandbar-controllers", "storefront/sandbar-baseline"},
	} {
		a := granting(t, roleIn("storefront", "sandbar-baseline"), roleIn("elsewhere", "sandbar-baseline"),
			roleIn("elsewhere", "sandbar-blue-baseline"), roleIn("elsewhere", "sandbar-controllers"))
		a.opts.DryRun = dryRun
		if err := a.withdraw(t.Context(), map[string]*opened{"storefront": {by: "shop"}}); err != nil {
			t.Fatal(err)
		}
		var roles rbacv1.RoleList
		if err := a.client.List(t.Context(), &roles); err != nil {
			t.Fatal(err)
		}
		var left []string
		for _, role := range roles.Items {
			left = append(left, role.Namespace+"/"+role.Name)
		}
		if diff := cmp.Diff(want, left); diff != "" {
			t.Errorf("dry run %t:\n%s", dryRun, diff)
		}
		if diff := cmp.Diff([]Entry{{"runtime", "Role", "elsewhere/sandbar-baseline", Deleted}}, a.report.Entries); diff != "" {
			t.Errorf("dry run %t:\n%s", dryRun, diff)
		}
	}
}

// The controllers could otherwise bind the Role where they like, and a thief of their credential read the environments of
// all Deployments of the cluster. What they may of RBAC is nothing, and what they may of workloads nothing outside of the
// namespaces that an administrator has opened.
func TestNobodyButAnAdministratorOpensANamespace(t *testing.T) {
	for _, object := range objectsOf(t, "runtime", true) {
		if !isRole(object) {
			continue
		}
		rules := fmt.Sprint(object.Object["rules"])
		for _, right := range []string{"rbac.authorization.k8s.io", "deployments", "statefulsets", "rollouts"} {
			if object.GetName() != "sandbar-kro" && strings.Contains(rules, right) {
				t.Errorf("%s has rights on %s", roleKey(object), right)
			}
		}
		if strings.HasSuffix(object.GetName(), "-baseline") {
			t.Errorf("init gives the rights of Baselines: %s", roleKey(object))
		}
	}
	for _, object := range objectsOf(t, "kcp", true) {
		if !isRole(object) || object.GetName() != "sandbar-provider" && object.GetName() != "sandbar-provider-serve" {
			continue
		}
		role := &rbacv1.ClusterRole{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, role); err != nil {
			t.Fatal(err)
		}
		for _, rule := range role.Rules {
			if slices.Contains(rule.Resources, "baselines") && !slices.Equal(rule.Verbs, []string{"get", "list", "watch"}) {
				t.Errorf("%s may %v Baselines", object.GetName(), rule.Verbs)
			}
		}
	}
}
