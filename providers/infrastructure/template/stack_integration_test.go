// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package template

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	kcpapisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	kcpapisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	kcptenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	krov1alpha1 "github.com/kubernetes-sigs/kro/api/v1alpha1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/install"
	"github.com/sandbar-dev/sandbar/pkg/inuse"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/rollout"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/runtimecluster"
)

// patience is how long a real kcp or kro may take for one step. kro looks again every 3 s.
const patience = 60 * time.Second

// stack is a provider workspace, a tenant's and a runtime cluster, with the controller running
// under the identities that init makes.
type stack struct {
	*testing.T

	export   string
	provider client.Client
	tenant   client.Client // the tenant's own admin
	admin    client.Client // kcp's admin in the tenant's workspace
	runtime  client.Client
}

func newStack(t *testing.T) *stack {
	t.Helper()
	kcpFile, runtimeFile := os.Getenv("KCP_KUBECONFIG"), os.Getenv("STACK_RUNTIME_KUBECONFIG")
	if kcpFile == "" || runtimeFile == "" {
		t.Fatal("no stack: KCP_KUBECONFIG and STACK_RUNTIME_KUBECONFIG are not set (make test-integration sets them)")
	}
	kcp, rt := load(t, kcpFile), load(t, runtimeFile)
	out := t.TempDir()
	workspace := fmt.Sprintf("root:sandbar-it-%d", time.Now().UnixNano()%1e9)
	_, err := install.Init(t.Context(), install.Options{
		KCP: kcp, Runtime: rt, Workspace: workspace, ExportName: "sandbar.dev", OutDir: out,
		Provider: sandbarv1alpha1.InfrastructureProviderSpec{
			DataPlane: sandbarv1alpha1.DataPlaneAddress{URL: "https://dataplane.test"},
			Images: map[string]string{
				"runner": "localhost/sandbar/runner:dev", "node": "localhost/sandbar/toolchain-node:dev", "redis": "localhost/sandbar/redis:dev",
			},
		},
		Progress: func(line string) { t.Log(line) },
	})
	// The provider of the next test, and of the end-to-end tests, is another one of the same names.
	t.Cleanup(func() { letNamesGo(t, rt) })
	if err != nil {
		t.Fatal(err)
	}
	startController(t, load(t, filepath.Join(out, install.KCPKubeconfig)), load(t, filepath.Join(out, install.ControllersKubeconfig)))
	s := &stack{T: t, export: workspace, provider: connect(t, at(kcp, workspace)), runtime: connect(t, rt)}
	s.newTenant(kcp, workspace+"-tenant")
	return s
}

// letNamesGo takes from the provider's own namespace on the runtime cluster which provider it is of, as an operator does
// after a provider that is gone for good.
func letNamesGo(t *testing.T, rt *rest.Config) {
	t.Helper()
	kube, err := kubernetes.NewForConfig(rt)
	if err != nil {
		t.Error(err)
		return
	}
	patch := []byte(`{"metadata":{"annotations":{"` + placement.AnnotationProvider + `":null}}}`)
	if _, err := kube.CoreV1().Namespaces().Patch(context.Background(), placement.SystemNamespace, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Error(err)
	}
}

func load(t *testing.T, file string) *rest.Config {
	t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		t.Fatal(err)
	}
	cfg.QPS = -1
	return cfg
}

func at(cfg *rest.Config, workspace string) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	host, _, _ := strings.Cut(cfg.Host, "/clusters/")
	cfg.Host = host + "/clusters/" + workspace
	return cfg
}

func testScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, sandbarv1alpha1.AddToScheme, krov1alpha1.AddToScheme,
		kcpapisv1alpha1.AddToScheme, kcpapisv1alpha2.AddToScheme, kcptenancyv1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return scheme
}

func connect(t *testing.T, cfg *rest.Config) client.Client {
	t.Helper()
	c, err := client.New(cfg, client.Options{Scheme: testScheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func startController(t *testing.T, kcp, rt *rest.Config) {
	t.Helper()
	mgr, err := ctrl.NewManager(kcp, ctrl.Options{
		Scheme: testScheme(t), Metrics: metricsserver.Options{BindAddress: "0"},
		// Each test has a controller of this name in the same process.
		Controller: config.Controller{SkipNameValidation: new(true)},
	})
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := runtimecluster.New(rt, placement.Names{})
	if err != nil {
		t.Fatal(err)
	}
	if err := mgr.Add(cluster); err != nil {
		t.Fatal(err)
	}
	rollouts, err := rollout.Register(mgr, cluster, &inuse.Clock{})
	if err != nil {
		t.Fatal(err)
	}
	if err := Register(mgr, cluster, Options{Rollouts: rollouts}); err != nil {
		t.Fatal(err)
	}
	ctrl.SetLogger(testr.New(t))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the manager ended with %v", err)
		}
	})
}

// newTenant makes a workspace whose admin is an ordinary user, and binds the export in it.
func (s *stack) newTenant(kcp *rest.Config, workspace string) {
	s.Helper()
	root := connect(s.T, at(kcp, "root"))
	name := workspace[strings.LastIndex(workspace, ":")+1:]
	ws := &kcptenancyv1alpha1.Workspace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	s.must(root.Create(s.Context(), ws))
	s.Cleanup(func() {
		for _, name := range []string{name, strings.TrimSuffix(name, "-tenant")} {
			ws := &kcptenancyv1alpha1.Workspace{ObjectMeta: metav1.ObjectMeta{Name: name}}
			if err := root.Delete(context.Background(), ws); err != nil {
				s.Error(err)
			}
		}
	})
	s.eventually("the tenant's workspace is ready", func() (bool, error) {
		err := root.Get(s.Context(), client.ObjectKeyFromObject(ws), ws)
		return string(ws.Status.Phase) == "Ready", err
	})
	s.admin = connect(s.T, at(kcp, workspace))
	s.must(s.admin.Create(s.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "tenant-admin"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "it-tenant"}},
	}))
	asTenant := at(kcp, workspace)
	asTenant.Impersonate = rest.ImpersonationConfig{UserName: "it-tenant", Groups: []string{"system:authenticated"}}
	s.tenant = connect(s.T, asTenant)
	s.must(s.admin.Create(s.Context(), &kcpapisv1alpha2.APIBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "sandbar"},
		Spec: kcpapisv1alpha2.APIBindingSpec{Reference: kcpapisv1alpha2.BindingReference{
			Export: &kcpapisv1alpha2.ExportBindingReference{Path: s.export, Name: "sandbar.dev"},
		}},
	}))
}

func (s *stack) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// eventually asks a real server again until it answers as wanted.
func (s *stack) eventually(what string, wanted func() (bool, error)) {
	s.Helper()
	deadline := time.Now().Add(patience)
	var last error
	for time.Now().Before(deadline) {
		ok, err := wanted()
		if ok && err == nil {
			return
		}
		last = err
		select {
		case <-time.After(100 * time.Millisecond):
		case <-s.Context().Done():
			s.Fatal(s.Context().Err())
		}
	}
	s.Fatalf("not within %s: %s (%v)", patience, what, last)
}

// condition waits until a Template's condition has a reason, and returns it.
func (s *stack) condition(template, condition, reason string) metav1.Condition {
	s.Helper()
	var found metav1.Condition
	tmpl := &sandbarv1alpha1.Template{}
	s.eventually(fmt.Sprintf("%s of Template %s has reason %s", condition, template, reason), func() (bool, error) {
		if err := s.provider.Get(s.Context(), client.ObjectKey{Name: template}, tmpl); err != nil {
			return false, err
		}
		c := meta.FindStatusCondition(tmpl.Status.Conditions, condition)
		if c == nil || tmpl.Status.ObservedGeneration != tmpl.Generation {
			return false, fmt.Errorf("conditions: %+v", tmpl.Status.Conditions)
		}
		if c.Reason != reason {
			return false, fmt.Errorf("it is %+v", *c)
		}
		found = *c
		return true, nil
	})
	return found
}

// thing is a Template of a small kind of its own.
func thing(name, kind string, spec map[string]any) *sandbarv1alpha1.Template {
	fields := map[string]any{"suspended": "boolean | default=false", "size": "integer | default=1", "note": "string"}
	maps.Copy(fields, spec)
	graph, err := json.Marshal(map[string]any{
		"schema": map[string]any{
			"apiVersion": "v1alpha1", "kind": kind, "group": "sandbar.dev", "spec": fields,
			"status": map[string]any{
				"ref":  map[string]any{"name": "${service.metadata.name}", "namespace": "${service.metadata.namespace}"},
				"made": "${service.metadata.uid}",
			},
		},
		"resources": []any{map[string]any{"id": "service", "template": map[string]any{
			"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": "thing"},
			"spec": map[string]any{"ports": []any{map[string]any{"name": "control", "port": 7070}}},
		}}},
	})
	if err != nil {
		panic(err)
	}
	return &sandbarv1alpha1.Template{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: sandbarv1alpha1.TemplateSpec{
			DisplayName: kind, Version: "0.1.0", Graph: runtime.RawExtension{Raw: graph},
			DataPlane: sandbarv1alpha1.DataPlane{Endpoints: map[string]sandbarv1alpha1.Endpoint{
				"log":    {ServiceRef: "status.ref", Port: "control", UpstreamPath: "/logs", Methods: []string{"GET"}},
				"status": {From: "instanceStatus"},
			}},
		},
	}
}

func instanceOf(kind, name string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(sandbarv1alpha1.GroupVersion.WithKind(kind))
	obj.SetNamespace("default")
	obj.SetName(name)
	return obj
}

// update changes a Template, again when another write came between.
func (s *stack) update(name string, change func(*sandbarv1alpha1.Template)) {
	s.Helper()
	s.eventually("Template "+name+" is updated", func() (bool, error) {
		tmpl := &sandbarv1alpha1.Template{}
		if err := s.provider.Get(s.Context(), client.ObjectKey{Name: name}, tmpl); err != nil {
			return false, err
		}
		change(tmpl)
		err := s.provider.Update(s.Context(), tmpl)
		return err == nil, err
	})
}

func (s *stack) template(name string) *sandbarv1alpha1.Template {
	s.Helper()
	tmpl := &sandbarv1alpha1.Template{}
	s.must(s.provider.Get(s.Context(), client.ObjectKey{Name: name}, tmpl))
	return tmpl
}

// Run runs a part in order; a part that fails ends the test.
func (s *stack) Run(name string, part func()) {
	s.Helper()
	s.Logf("--- %s", name)
	part()
	if s.Failed() {
		s.FailNow()
	}
}

// remove deletes a Template and waits until it is gone.
func (s *stack) remove(tmpl *sandbarv1alpha1.Template) {
	s.Helper()
	s.must(s.provider.Delete(s.Context(), tmpl))
	s.eventually("Template "+tmpl.Name+" is gone", func() (bool, error) {
		err := s.provider.Get(s.Context(), client.ObjectKeyFromObject(tmpl), &sandbarv1alpha1.Template{})
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
}
