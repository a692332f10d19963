// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package instance

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	kcpapisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	kcpapisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	krov1alpha1 "github.com/kubernetes-sigs/kro/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/dynamic"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/yaml"

	"github.com/sandbar-dev/sandbar/apis/crds"
	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/pkg/inuse"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/offer"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/rollout"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/runtimecluster"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/sandboxtemplate"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/sweep"
)

// provider is a provider workspace with one Template of a kind of its own, on a shared kcp and
// a shared runtime cluster.
type provider struct {
	path     string
	config   *rest.Config
	client   client.Client // of the workspace
	runtime  client.Client // uncached, with an operator's rights
	kind     scope.Kind
	template *sandbarv1alpha1.Template
	options  Options
	sweep    sweep.Options
}

// tenant is a workspace that has bound the export.
type tenant struct {
	path      string
	client    client.Client
	binding   *unstructured.Unstructured
	instances dynamic.ResourceInterface
	kind      scope.Kind
}

func testScheme(t *testing.T) *k8sruntime.Scheme {
	t.Helper()
	scheme := k8sruntime.NewScheme()
	for _, add := range []func(*k8sruntime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, sandbarv1alpha1.AddToScheme, krov1alpha1.AddToScheme,
		kcpapisv1alpha1.AddToScheme, kcpapisv1alpha2.AddToScheme,
	} {
		mustDo(t, add(scheme))
	}
	return scheme
}

func kubeconfig(t *testing.T, variable string) *rest.Config {
	t.Helper()
	path := os.Getenv(variable)
	if path == "" {
		t.Fatalf("%s is not set: run `make test-integration`, or `eval \"$(go -C hack/stack run . env)\"` first", variable)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	mustDo(t, err)
	config.QPS = -1
	return config
}

// workspace is the configuration for a workspace of the stack's kcp.
func workspace(t *testing.T, path string) *rest.Config {
	t.Helper()
	config := kubeconfig(t, "KCP_KUBECONFIG")
	u, err := url.Parse(config.Host)
	mustDo(t, err)
	u.Path = "/clusters/" + path
	config.Host = u.String()
	return config
}

func clientFor(t *testing.T, config *rest.Config) client.Client {
	t.Helper()
	c, err := client.New(config, client.Options{Scheme: testScheme(t)})
	mustDo(t, err)
	return c
}

// createWorkspace creates root:<prefix>-<random> and waits until it can be used.
func createWorkspace(t *testing.T, prefix string) string {
	t.Helper()
	root := clientFor(t, workspace(t, "root"))
	ws := object("tenancy.kcp.io/v1alpha1", "Workspace", prefix+"-"+rand.String(6))
	ws.Object["spec"] = map[string]any{"type": map[string]any{"name": "universal", "path": "root"}}
	mustDo(t, root.Create(t.Context(), ws))
	t.Cleanup(func() { _ = root.Delete(context.Background(), ws) })
	eventually(t, "the workspace", func() error {
		if err := root.Get(t.Context(), client.ObjectKeyFromObject(ws), ws); err != nil {
			return err
		}
		if phase, _, _ := unstructured.NestedString(ws.Object, "status", "phase"); phase != "Ready" {
			return fmt.Errorf("phase is %q", phase)
		}
		return nil
	})
	return "root:" + ws.GetName()
}

func object(apiVersion, kind, name string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{}
	obj.SetAPIVersion(apiVersion)
	obj.SetKind(kind)
	obj.SetName(name)
	return obj
}

func newProvider(t *testing.T) *provider {
	t.Helper()
	p := &provider{path: createWorkspace(t, "instance-test"), runtime: clientFor(t, kubeconfig(t, "STACK_RUNTIME_KUBECONFIG"))}
	p.config = workspace(t, p.path)
	p.client = clientFor(t, p.config)
	suffix := rand.String(6)
	p.kind = scope.Kind{
		Template: "thing-" + suffix,
		Kind: export.Kind{
			GVK:      schema.GroupVersionKind{Group: "sandbar.dev", Version: "v1alpha1", Kind: "Thing" + suffix},
			Resource: "thing" + suffix + "s",
		},
	}
	p.createCRDs(t)
	grantKro(t, p.runtime)
	p.createGraph(t)
	p.createExport(t)
	infrastructure := &sandbarv1alpha1.InfrastructureProvider{}
	infrastructure.Name = "default"
	infrastructure.Spec.DataPlane.URL = "https://sandbar.example.test"
	mustDo(t, p.client.Create(t.Context(), infrastructure))
	p.createTemplate(t)
	return p
}

// createCRDs creates all before it waits for any: each takes kcp five seconds.
func (p *provider) createCRDs(t *testing.T) {
	t.Helper()
	files, err := crds.Files.ReadDir(".")
	mustDo(t, err)
	var kinds []schema.GroupVersionKind
	for _, file := range files {
		data, err := crds.Files.ReadFile(file.Name())
		mustDo(t, err)
		crd := &apiextensionsv1.CustomResourceDefinition{}
		mustDo(t, yaml.Unmarshal(data, crd))
		mustDo(t, p.client.Create(t.Context(), crd))
		kinds = append(kinds, schema.GroupVersionKind{Group: "sandbar.dev", Version: "v1alpha1", Kind: crd.Spec.Names.ListKind})
	}
	for _, kind := range kinds {
		eventually(t, "the CRD", func() error {
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(kind)
			return p.client.List(t.Context(), list)
		})
	}
}

// grantKro gives kro the rights that sandbar-provider init gives it. The role stays: others use it.
func grantKro(t *testing.T, cluster client.Client) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "..", "install", "rbac", "kro", "zz_generated.role.yaml"))
	mustDo(t, err)
	role := &unstructured.Unstructured{}
	mustDo(t, yaml.Unmarshal(data, role))
	role.SetName("integration-test-kro")
	role.SetLabels(map[string]string{"rbac.kro.run/aggregate-to-controller": "true"})
	mustDo(t, client.IgnoreAlreadyExists(cluster.Create(t.Context(), role)))
}

// createGraph gives kro a graph with one Service that carries the instance's UID.
func (p *provider) createGraph(t *testing.T) {
	t.Helper()
	graph := &krov1alpha1.ResourceGraphDefinition{}
	mustDo(t, yaml.Unmarshal([]byte(strings.NewReplacer("NAME", p.kind.Template, "KIND", p.kind.GVK.Kind).Replace(`
metadata: {name: NAME}
spec:
  schema:
    apiVersion: v1alpha1
    group: sandbar.dev
    kind: KIND
    spec:
      color: string | default="red"
      suspended: boolean | default=false
    status:
      color: ${control.metadata.annotations.color}
      controlServiceRef:
        name: ${control.metadata.name}
        namespace: ${control.metadata.namespace}
  resources:
  - id: control
    template:
      apiVersion: v1
      kind: Service
      metadata:
        name: control
        annotations: {color: "${schema.spec.color}"}
        labels:
          sandbar.dev/instance-uid: ${schema.metadata.labels["sandbar.dev/instance-uid"]}
      spec:
        selector: {app: control}
        ports: [{name: control, port: 80}]
`)), graph))
	mustDo(t, p.runtime.Create(t.Context(), graph))
	t.Cleanup(func() {
		_ = p.runtime.Delete(context.Background(), graph)
		p.removeCRD()
	})
	eventually(t, "kro to serve the kind", func() error {
		if err := p.runtime.Get(t.Context(), client.ObjectKeyFromObject(graph), graph); err != nil {
			return err
		}
		if graph.Status.State != krov1alpha1.ResourceGraphDefinitionStateActive {
			return fmt.Errorf("state is %q: %v", graph.Status.State, graph.Status.Conditions)
		}
		return nil
	})
}

func (p *provider) createExport(t *testing.T) {
	t.Helper()
	k := p.kind
	anything := map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	apiSchema := object("apis.kcp.io/v1alpha1", "APIResourceSchema", "v1."+k.Resource+".sandbar.dev")
	apiSchema.SetLabels(map[string]string{placement.LabelTemplate: k.Template})
	apiSchema.Object["spec"] = map[string]any{
		"group": "sandbar.dev", "scope": "Namespaced",
		"names": map[string]any{
			"kind": k.GVK.Kind, "listKind": k.GVK.Kind + "List", "plural": k.Resource, "singular": strings.ToLower(k.GVK.Kind),
		},
		"versions": []any{map[string]any{
			"name": "v1alpha1", "served": true, "storage": true,
			"subresources": map[string]any{"status": map[string]any{}},
			"schema":       map[string]any{"type": "object", "properties": map[string]any{"spec": anything, "status": anything}},
		}},
	}
	mustDo(t, p.client.Create(t.Context(), apiSchema))
	export := object("apis.kcp.io/v1alpha2", "APIExport", "sandbar.dev")
	export.Object["spec"] = map[string]any{"resources": []any{map[string]any{
		"group": "sandbar.dev", "name": k.Resource, "schema": apiSchema.GetName(),
		"storage": map[string]any{"crd": map[string]any{}},
	}}}
	mustDo(t, p.client.Create(t.Context(), export))
}

// createTemplate creates the Template as the template controller leaves it.
func (p *provider) createTemplate(t *testing.T) {
	t.Helper()
	template := &sandbarv1alpha1.Template{}
	template.Name = p.kind.Template
	template.Spec = sandbarv1alpha1.TemplateSpec{
		DisplayName: "Thing", Version: "0.1.0",
		Graph: k8sruntime.RawExtension{Raw: []byte(`{}`)},
		DataPlane: sandbarv1alpha1.DataPlane{Endpoints: map[string]sandbarv1alpha1.Endpoint{
			"log": {ServiceRef: "status.controlServiceRef", Port: "control", Methods: []string{"GET"}},
		}},
	}
	mustDo(t, p.client.Create(t.Context(), template))
	template.Status.Kind, template.Status.Group, template.Status.Version = p.kind.GVK.Kind, p.kind.GVK.Group, p.kind.GVK.Version
	template.Status.Resource, template.Status.SchemaName = p.kind.Resource, "v1."+p.kind.Resource+".sandbar.dev"
	meta.SetStatusCondition(&template.Status.Conditions, metav1.Condition{
		Type: sandbarv1alpha1.TemplateExported, Status: metav1.ConditionTrue, Reason: "Exported",
	})
	mustDo(t, p.client.Status().Update(t.Context(), template))
	p.template = template
}

func (p *provider) deleteTemplate(t *testing.T) {
	t.Helper()
	mustDo(t, p.client.Delete(t.Context(), p.template))
}

// run starts the controllers and returns how to end them; the end of the test ends them too.
// What is left of the placements is removed after that.
func (p *provider) run(t *testing.T) func() {
	t.Helper()
	skipNameValidation := true
	options := ctrl.Options{
		Scheme:  testScheme(t),
		Metrics: metricsserver.Options{BindAddress: "0"},
	}
	options.Controller.SkipNameValidation = &skipNameValidation
	mgr, err := ctrl.NewManager(p.config, options)
	mustDo(t, err)
	cluster, err := runtimecluster.New(kubeconfig(t, "STACK_RUNTIME_KUBECONFIG"), placement.Names{})
	mustDo(t, err)
	mustDo(t, mgr.Add(cluster))
	rollouts, err := rollout.Register(mgr, cluster, &inuse.Clock{})
	mustDo(t, err)
	p.options.Rollouts = rollouts
	offers, err := offer.Register(mgr, p.options.ExportName)
	mustDo(t, err)
	p.options.Kinds = NewKinds("", func(export.Key) {}, func(export.Key) {})
	p.options.Templates, err = sandboxtemplate.Register(mgr, cluster, sandboxtemplate.Options{Offers: offers, Readers: []sandboxtemplate.Reader{p.options.Kinds}})
	mustDo(t, err)
	mustDo(t, Register(mgr, cluster, p.options))
	p.sweep.ExportName = p.options.ExportName
	mustDo(t, sweep.Register(mgr, cluster, p.sweep))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	stopped := false
	stop := func() {
		if !stopped {
			stopped = true
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("the manager ended with: %v", err)
			}
		}
	}
	t.Cleanup(func() {
		stop()
		p.removePlacements(t)
	})
	return stop
}

// removePlacements waits for their end: without its graph kro would never let its instances go.
func (p *provider) removePlacements(t *testing.T) {
	t.Helper()
	eventually(t, "the removal of what the test left", func() error {
		var list corev1.NamespaceList
		err := p.runtime.List(context.Background(), &list, client.MatchingLabels{placement.LabelTemplate: p.kind.Template})
		if err != nil || len(list.Items) == 0 {
			return err
		}
		for i := range list.Items {
			_ = p.runtime.Delete(context.Background(), &list.Items[i])
		}
		return fmt.Errorf("%d placements are left", len(list.Items))
	})
}

// removeCRD removes the CRD that kro made and leaves behind. Its annotation says that its instances may go.
func (p *provider) removeCRD() {
	var list apiextensionsv1.CustomResourceDefinitionList
	_ = p.runtime.List(context.Background(), &list, client.MatchingLabels{"kro.run/owned": "true"})
	for i := range list.Items {
		if list.Items[i].Spec.Names.Kind == p.kind.GVK.Kind {
			patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"true"}}}`, placement.AnnotationAllowDeletion)
			_ = p.runtime.Patch(context.Background(), &list.Items[i], client.RawPatch(types.MergePatchType, patch))
			_ = p.runtime.Delete(context.Background(), &list.Items[i])
		}
	}
}

func (p *provider) newTenant(t *testing.T) *tenant {
	t.Helper()
	path := createWorkspace(t, "instance-tenant")
	config := workspace(t, path)
	binding := object("apis.kcp.io/v1alpha2", "APIBinding", "sandbar.dev")
	binding.Object["spec"] = map[string]any{"reference": map[string]any{"export": map[string]any{"path": p.path, "name": "sandbar.dev"}}}
	tn := &tenant{path: path, client: clientFor(t, config), binding: binding, kind: p.kind}
	eventually(t, "the binding", func() error { return tn.client.Create(t.Context(), binding) })
	all, err := dynamic.NewForConfig(config)
	mustDo(t, err)
	tn.instances = all.Resource(p.kind.GVR()).Namespace("default")
	eventually(t, "the bound API", func() error {
		_, err := tn.instances.List(t.Context(), metav1.ListOptions{})
		return err
	})
	return tn
}

func (tn *tenant) create(t *testing.T, name, color string) {
	t.Helper()
	obj := tn.kind.NewObject()
	obj.SetName(name)
	obj.SetNamespace("default")
	obj.Object["spec"] = map[string]any{"color": color, "suspended": false}
	_, err := tn.instances.Create(t.Context(), obj, metav1.CreateOptions{})
	mustDo(t, err)
}

func (tn *tenant) find(name string) (*unstructured.Unstructured, error) {
	return tn.instances.Get(context.Background(), name, metav1.GetOptions{})
}

func (tn *tenant) get(t *testing.T, name string) *unstructured.Unstructured {
	t.Helper()
	obj, err := tn.find(name)
	mustDo(t, err)
	return obj
}

func (tn *tenant) patch(t *testing.T, name, patch string) {
	t.Helper()
	_, err := tn.instances.Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	mustDo(t, err)
}

func (tn *tenant) delete(t *testing.T, name string) {
	t.Helper()
	mustDo(t, tn.instances.Delete(t.Context(), name, metav1.DeleteOptions{}))
}

func (tn *tenant) waitReady(t *testing.T, name string) *unstructured.Unstructured {
	t.Helper()
	var obj *unstructured.Unstructured
	eventually(t, name+" to be ready", func() error {
		obj = tn.get(t, name)
		if !isReady(obj) {
			status, _ := json.Marshal(obj.Object["status"])
			return fmt.Errorf("status is %s", status)
		}
		return nil
	})
	return obj
}

// goroutinesOf counts the goroutines whose stack names one of the packages.
func goroutinesOf(packages ...string) int {
	stacks := make([]byte, 8<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	count := 0
	for stack := range strings.SplitSeq(string(stacks), "\n\n") {
		for _, name := range packages {
			if strings.Contains(stack, name) {
				count++
				break
			}
		}
	}
	return count
}
