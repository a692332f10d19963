// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/sandbar-dev/sandbar/apis/builtin"
	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/contract"
	"github.com/sandbar-dev/sandbar/pkg/golden"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/offer"
	"github.com/sandbar-dev/sandbar/templates"
)

// testProvider is the logical cluster of the provider workspace.
const testProvider = "2hx1zq5kq0a8v3mw"

func testOptions() Options {
	return Options{
		KCP: &rest.Config{Host: "https://kcp.test/clusters/root"}, Runtime: &rest.Config{Host: "https://runtime.test"},
		Workspace: "root:sandbar", ExportName: "sandbar.dev", Templates: templates.Names(),
		Provider: sandbarv1alpha1.InfrastructureProviderSpec{
			DataPlane: sandbarv1alpha1.DataPlaneAddress{URL: "https://dp.test", CABundle: []byte("PEM")},
			Images:    map[string]string{"runner": "runner:1", "node": "node:1"},
			Preview: &sandbarv1alpha1.Preview{
				BaseDomain: "preview.test", GatewayRef: &sandbarv1alpha1.GatewayReference{Namespace: "gw", Name: "public"},
			},
		},
		KroServiceAccount: DefaultKroServiceAccount, TokenLifetime: DefaultTokenLifetime,
		Progress: func(string) {}, provider: testProvider,
	}
}

func objectsOf(t *testing.T, side string, gateway bool) []*unstructured.Unstructured {
	t.Helper()
	opts := testOptions()
	objects, err := runtimeObjects(opts, "restricted")
	if side == "kcp" {
		objects, err = kcpObjects(opts, gateway)
	}
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// The golden files show in a review what init applies. CRDs and Templates have their own.
func TestWhatIsAppliedIsTheGolden(t *testing.T) {
	for _, side := range []string{"kcp", "runtime"} {
		t.Run(side, func(t *testing.T) {
			var out strings.Builder
			for _, object := range objectsOf(t, side, true) {
				if kind := object.GetKind(); kind == "CustomResourceDefinition" || kind == "Template" {
					fmt.Fprintf(&out, "---\n# %s %s\n", kind, object.GetName())
					continue
				}
				raw, err := yaml.Marshal(object.Object)
				if err != nil {
					t.Fatal(err)
				}
				fmt.Fprintf(&out, "---\n%s", raw)
			}
			golden.Check(t, filepath.Join("testdata", side+".golden.yaml"), []byte(out.String()))
		})
	}
}

func clusterRoles(t *testing.T, objects []*unstructured.Unstructured) map[string]*rbacv1.ClusterRole {
	t.Helper()
	roles := map[string]*rbacv1.ClusterRole{}
	for _, object := range objects {
		if object.GetKind() != "ClusterRole" {
			continue
		}
		role := &rbacv1.ClusterRole{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, role); err != nil {
			t.Fatal(err)
		}
		roles[role.Name] = role
	}
	return roles
}

// Running init again must not take from tenants what the template controller gave them.
func TestInitDoesNotOwnWhatControllersWrite(t *testing.T) {
	for _, object := range objectsOf(t, "kcp", true) {
		if object.GetName() == offer.PolicyRole && object.GetKind() == "ClusterRole" {
			if _, ok := object.Object["rules"]; ok {
				t.Error("the policy role has rules, which replace those of the controller")
			}
		}
		if object.GetKind() == "APIExport" {
			if _, ok, _ := unstructured.NestedFieldNoCopy(object.Object, "spec", "resources"); ok {
				t.Error("the export has resources, which replace those of the controller")
			}
		}
	}
	if _, ok := clusterRoles(t, objectsOf(t, "kcp", true))[offer.PolicyRole]; !ok {
		t.Errorf("there is no ClusterRole %s, which the template controller writes", offer.PolicyRole)
	}
}

// escalate on more than one named role would let the provider give itself anything.
func TestTheProvidersRightsAreNarrow(t *testing.T) {
	all := clusterRoles(t, append(objectsOf(t, "kcp", true), objectsOf(t, "runtime", true)...))
	for _, name := range []string{"sandbar-provider", "sandbar-provider-serve", "sandbar-controllers", "sandbar-serve"} {
		role := all[name]
		if role == nil {
			t.Fatalf("there is no ClusterRole %s", name)
		}
		for _, rule := range role.Rules {
			named := len(rule.ResourceNames) > 0
			// A Secret without a name may be the token of an administrator.
			if slices.Contains(rule.Resources, "secrets") && !named && !slices.Equal(rule.Verbs, []string{"create"}) {
				t.Errorf("%s may use Secrets without a name: %v", name, rule)
			}
			if slices.Contains(rule.APIGroups, "*") || (slices.Contains(rule.Resources, "*") && !slices.Equal(rule.APIGroups, []string{"sandbar.dev"})) {
				t.Errorf("%s has rights on everything: %v", name, rule)
			}
			for _, verb := range []string{"escalate", "bind", "impersonate", "*"} {
				if slices.Contains(rule.Verbs, verb) && !named {
					t.Errorf("%s may %s without a name: %v", name, verb, rule)
				}
			}
		}
	}
	for _, rule := range all["sandbar-serve"].Rules {
		proxy := slices.Equal(rule.Resources, []string{"pods/proxy"})
		streams := slices.Equal(rule.Resources, []string{"pods/attach", "pods/exec", "pods/portforward"})
		if slices.Equal(rule.Resources, []string{"leases"}) && slices.Equal(rule.ResourceNames, []string{placement.ActivityLease}) {
			continue // a time, and nothing else
		}
		for _, verb := range rule.Verbs {
			if !slices.Contains([]string{"get", "list", "watch"}, verb) && !proxy && (!streams || verb != "create") {
				t.Errorf("sandbar-serve may %s %v", verb, rule.Resources)
			}
		}
	}
}

// rightsOn are the rights that the data plane asks for when the verbs of a kind are used with all of
// their methods, as "verb subresource".
func rightsOn(dp *sandbarv1alpha1.DataPlane) map[string]bool {
	rights := map[string]bool{"create renew": true}
	verbs := map[string]string{"GET": "get", "HEAD": "get", "OPTIONS": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
	ask := func(component string, endpoints map[string]sandbarv1alpha1.Endpoint) {
		for name, e := range endpoints {
			switch {
			case e.From == contract.FromInstanceStatus:
				rights["get "+name] = true
			case e.Upgrade && name != contract.ProxyVerb:
				rights["create "+name] = true
			default:
				for _, method := range e.Methods {
					rights[verbs[method]+" "+name] = true
				}
			}
		}
		if _, ok := contract.Preview(dp, component); ok {
			rights["create proxy-url"], rights["delete proxy-url"] = true, true
		}
	}
	ask("", dp.Endpoints)
	for name, component := range dp.Components {
		ask(name, component.Endpoints)
	}
	return rights
}

func TestTheReadyMadeRolesAreWhatTheirNamesSayOfAllBuiltInTemplates(t *testing.T) {
	want := map[string]map[string]bool{"operator": {}, "previewer": {}, "viewer": {}}
	plurals := map[string]string{"redis": "redis", "sandbox": "sandboxes", "sandbox-group": "sandboxgroups", "sandbox-runner": "sandboxrunners", "web-app": "webapps"}
	for _, name := range templates.Names() {
		tmpl, err := templates.Get(name)
		if err != nil {
			t.Fatal(err)
		}
		resource := plurals[name]
		rights := rightsOn(contract.Complete(&tmpl.Spec))
		for right := range rights {
			verb, subresource, _ := strings.Cut(right, " ")
			want["operator"][verb+" "+resource+"/"+subresource] = true
			if slices.Contains([]string{"get status", "get log", "get process"}, right) {
				want["viewer"][verb+" "+resource+"/"+subresource] = true
			}
			if subresource == "proxy" || right == "create proxy-url" {
				want["previewer"][verb+" "+resource+"/"+subresource] = true
			}
		}
		for _, verb := range []string{"get", "list", "watch", "create", "update", "patch", "delete"} {
			want["operator"][verb+" "+resource] = true
		}
		for _, verb := range []string{"get", "list", "watch"} {
			want["viewer"][verb+" "+resource] = true
		}
		if rights["get proxy"] {
			want["previewer"]["get "+resource] = true
		}
	}
	for _, kind := range builtin.Kinds { // of no Template
		own := kind.Resource
		for _, verb := range []string{"get", "list", "watch", "create", "update", "patch", "delete"} {
			want["operator"][verb+" "+own] = true
		}
		for _, right := range []string{"get " + own, "list " + own, "watch " + own, "get " + own + "/status"} {
			want["viewer"][right], want["operator"][right] = true, true
		}
		for _, shown := range kind.Shown {
			want["viewer"]["get "+own+"/"+shown], want["operator"]["get "+own+"/"+shown] = true, true
		}
		for _, read := range kind.Reads {
			want["operator"]["get "+own+"/"+read] = true
		}
		for _, call := range kind.Calls {
			want["operator"]["create "+own+"/"+call] = true
		}
		for _, subresource := range kind.Subresources {
			for _, verb := range []string{"get", "update", "patch"} {
				want["operator"][verb+" "+own+"/"+subresource] = true
			}
		}
	}
	for _, name := range TenantRoles() {
		// kcp lets nobody read these by access to the workspace alone, and sandbar trust finds the data plane by them.
		want[name]["get apibindings"], want[name]["list apibindings"] = true, true
		if name != "previewer" {
			want[name]["get events"], want[name]["list events"], want[name]["watch events"] = true, true, true
		}
		raw, err := TenantRole(name)
		if err != nil {
			t.Fatal(err)
		}
		role := &rbacv1.ClusterRole{}
		if err := yaml.UnmarshalStrict(raw, role); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(want[name], rightsOfRole(role)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// rightsOfRole are the rights of a role, each as a verb and a resource.
func rightsOfRole(role *rbacv1.ClusterRole) map[string]bool {
	rights := map[string]bool{}
	for _, rule := range role.Rules {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				rights[verb+" "+resource] = true
			}
		}
	}
	return rights
}

func TestOptionsThatCannotWorkAreRefusedBeforeAnythingIsDone(t *testing.T) {
	for name, tc := range map[string]struct {
		edit func(*Options)
		want string
	}{
		"a workspace that is no path":       {func(o *Options) { o.Workspace = "sandbar" }, `the workspace "sandbar" is not a path`},
		"a workspace with an odd name":      {func(o *Options) { o.Workspace = "root:A/b" }, "is not a path"},
		"an export name that is no name":    {func(o *Options) { o.ExportName = "x y" }, "the export's name"},
		"no URL":                            {func(o *Options) { o.Provider.DataPlane.URL = "" }, "the URL of the data plane: must be https"},
		"a URL that shows tokens on a wire": {func(o *Options) { o.Provider.DataPlane.URL = "http://dp.test" }, "the URL of the data plane: must be https"},
		"a preview domain that is a URL":    {func(o *Options) { o.Provider.DataPlane.PreviewDomain = "https://x" }, "the preview domain: "},
		"an image that no graph can name":   {func(o *Options) { o.Provider.Images["a-b"] = "x:1" }, `the images: the key "a-b" must`},
		"a Template that is not built in":   {func(o *Options) { o.Templates = []string{"nosuch"} }, "no built-in Template of that name"},
		"a kro that is no ServiceAccount":   {func(o *Options) { o.KroServiceAccount = "kro" }, "the ServiceAccount of kro"},
		"tokens that end at once":           {func(o *Options) { o.TokenLifetime = time.Minute }, "the lifetime of tokens"},
		"no kcp":                            {func(o *Options) { o.KCP = nil }, "both kcp and the runtime cluster are needed"},
	} {
		t.Run(name, func(t *testing.T) {
			opts := testOptions()
			tc.edit(&opts)
			report, err := Init(t.Context(), opts)
			if err == nil || !strings.Contains(err.Error(), tc.want) || len(report.Entries) > 0 {
				t.Errorf("err = %v, want one with %q and nothing done (%v)", err, tc.want, report.Entries)
			}
		})
	}
}

func TestWithoutTheGatewayAPITemplatesAreAppliedBareAndThePersonIsTold(t *testing.T) {
	opts := testOptions()
	told := ""
	opts.Progress = func(line string) { told += line }
	objects, err := kcpObjects(opts, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		raw, err := object.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if object.GetKind() == "Template" && strings.Contains(string(raw), "gateway.networking.k8s.io") {
			t.Errorf("Template %s still has routes", object.GetName())
		}
	}
	if !strings.Contains(told, "Template sandbox-runner goes without [route grant]") {
		t.Errorf("told %q", told)
	}
}

func TestAKubeconfigHasTheServerAndNothingOfTheAdministrator(t *testing.T) {
	admin := &rest.Config{
		Host: "https://kcp.test/clusters/root:x", BearerToken: "admin-secret", Username: "admin-user", Password: "admin-secret",
		TLSClientConfig: rest.TLSClientConfig{CAData: []byte("CA"), CertData: []byte("admin-secret"), KeyData: []byte("admin-secret")},
		Impersonate:     rest.ImpersonationConfig{UserName: "admin-user"},
	}
	raw, err := kubeconfig(&applier{cfg: admin, system: "sandbar-blue-system"}, "sandbar-provider", "narrow.token")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(raw), "admin") {
		t.Errorf("the kubeconfig has something of the administrator:\n%s", raw)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, KCPKubeconfig)
	for file, content := range map[string][]byte{path: raw, filepath.Join(dir, "narrow.token"): []byte("narrow-token")} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	// The file beside it, wherever the folder is.
	if cfg.Host != admin.Host || string(cfg.CAData) != "CA" || cfg.BearerToken != "narrow-token" || cfg.BearerTokenFile != filepath.Join(dir, "narrow.token") {
		t.Errorf("the kubeconfig leads to %s with CA %q and token %q of %s", cfg.Host, cfg.CAData, cfg.BearerToken, cfg.BearerTokenFile)
	}
	loaded, err := clientcmd.LoadFromFile(path)
	if err != nil || loaded.Contexts[loaded.CurrentContext].Namespace != "sandbar-blue-system" {
		t.Errorf("the kubeconfig does not say the provider's own namespace: %v", err)
	}
}

func TestAKubeconfigFileIsItsOwnersOnlyAndUnchangedWhenTheSame(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kcp.kubeconfig")
	for i, want := range []Action{Written, Unchanged} {
		got, err := writeSecret(path, []byte("secret"))
		if err != nil || got != want {
			t.Errorf("write %d: %s, %v; want %s", i, got, err, want)
		}
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("write %d: mode %v, %v; want 0600", i, info.Mode(), err)
		}
		// A file that somebody opened to others is closed again.
		if err := os.Chmod(path, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAWorkspacesConfigurationReplacesThePathOfTheHost(t *testing.T) {
	for host, want := range map[string]string{
		"https://kcp.test":                          "https://kcp.test/clusters/root:sandbar",
		"https://kcp.test/":                         "https://kcp.test/clusters/root:sandbar",
		"https://kcp.test/clusters/root":            "https://kcp.test/clusters/root:sandbar",
		"https://kcp.test:6443/prefix/clusters/x:y": "https://kcp.test:6443/prefix/clusters/root:sandbar",
	} {
		if got := WorkspaceConfig(&rest.Config{Host: host}, "root:sandbar").Host; got != want {
			t.Errorf("%s becomes %s, want %s", host, got, want)
		}
	}
}

// The controllers check a change of the InfrastructureProvider before graphs see it; an init that
// wrote the values itself would go around that.
func TestInitLeavesThePlatformsValuesToTheControllers(t *testing.T) {
	for _, object := range objectsOf(t, "runtime", true) {
		if object.GetKind() == "ConfigMap" {
			t.Errorf("init writes ConfigMap %s/%s", object.GetNamespace(), object.GetName())
		}
	}
}

func TestAdmissionFollowsWhatTheOperatorSets(t *testing.T) {
	policies := func(level, kro string) map[string]string {
		opts := testOptions()
		opts.KroServiceAccount, opts.TokenLifetime = kro, 2*time.Hour
		objects, err := runtimeObjects(opts, level)
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]string{}
		for _, object := range objects {
			if object.GetKind() == "ValidatingAdmissionPolicy" {
				found[object.GetName()] = fmt.Sprint(object.Object)
			}
		}
		return found
	}
	for level, want := range map[string]string{
		"restricted": `in ["restricted"] `, "baseline": `in ["restricted","baseline"] `, "privileged": `in ["restricted","baseline","privileged"] `,
	} {
		if got := policies(level, "a-system/b")["sandbar-controllers"]; !strings.Contains(got, want) {
			t.Errorf("%s: the policy lacks %q", level, want)
		}
	}
	free := testOptions()
	free.KroServiceAccount = ""
	objects, err := runtimeObjects(free, "restricted")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(objects, func(o *unstructured.Unstructured) bool {
		return o.GetKind() == "ClusterRole" && o.GetName() == "sandbar-kro"
	}) {
		t.Error("without kro's ServiceAccount kro does not get its rights")
	}
	bounded, unbounded := policies("restricted", "a-system/b"), policies("restricted", "")
	if !strings.Contains(bounded[kroPolicy], `"system:serviceaccount:a-system:b"`) {
		t.Error("the policy is not about kro")
	}
	if _, ok := unbounded[kroPolicy]; ok || len(unbounded) != 7 {
		t.Errorf("without kro's ServiceAccount there are %d policies", len(unbounded))
	}
	for name, policy := range bounded {
		if !strings.Contains(policy, `failurePolicy:Fail`) || strings.Contains(policy, "{{") {
			t.Errorf("%s does not fail closed, or has a hole", name)
		}
		if name != kroPolicy && name != "sandbar-deletion" && !strings.HasPrefix(name, "sandbar-interception") && !strings.Contains(policy, "<= 7200 ") {
			t.Errorf("%s does not bound tokens to two hours", name)
		}
	}
}
