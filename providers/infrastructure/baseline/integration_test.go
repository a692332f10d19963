// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package baseline

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/install"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/runtimecluster"
)

// runtimeName keeps what this test installs apart from the provider of the stack.
const runtimeName = "baselinetest"

// installed is a provider of the test's own on the stack, with the identities that init has written.
type installed struct {
	opts         install.Options
	kcp, runtime client.Client // of administrators
}

func newInstalled(t *testing.T) *installed {
	t.Helper()
	load := func(file string) *rest.Config {
		t.Helper()
		config, err := clientcmd.BuildConfigFromFlags("", file)
		if err != nil {
			t.Fatal(err)
		}
		return config
	}
	kcpFile, runtimeFile := os.Getenv("KCP_KUBECONFIG"), os.Getenv("STACK_RUNTIME_KUBECONFIG")
	if kcpFile == "" || runtimeFile == "" {
		t.Fatal("no stack: KCP_KUBECONFIG and STACK_RUNTIME_KUBECONFIG are not set (make test-integration sets them)")
	}
	i := &installed{opts: install.Options{
		KCP: load(kcpFile), Runtime: load(runtimeFile), Workspace: fmt.Sprintf("root:sandbar-baseline-%d", time.Now().UnixNano()%1e9),
		ExportName: "sandbar.dev", RuntimeName: runtimeName, OutDir: t.TempDir(), Progress: func(line string) { t.Log(line) },
		Provider: sandbarv1alpha1.InfrastructureProviderSpec{DataPlane: sandbarv1alpha1.DataPlaneAddress{URL: "https://dataplane.test"}},
	}}
	t.Cleanup(func() { i.leave(t) })
	if _, err := install.Init(t.Context(), i.opts); err != nil {
		t.Fatal(err)
	}
	i.kcp, i.runtime = clientOf(t, install.WorkspaceConfig(i.opts.KCP, i.opts.Workspace)), clientOf(t, i.opts.Runtime)
	return i
}

func clientOf(t *testing.T, config *rest.Config) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), sandbarv1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// leave deletes the workspace, and lets go of the name on the runtime cluster, for the next run.
func (i *installed) leave(t *testing.T) {
	ctx := context.Background()
	workspace := &unstructured.Unstructured{}
	workspace.SetGroupVersionKind(schema.GroupVersionKind{Group: "tenancy.kcp.io", Version: "v1alpha1", Kind: "Workspace"})
	workspace.SetName(strings.TrimPrefix(i.opts.Workspace, "root:"))
	if err := clientOf(t, install.WorkspaceConfig(i.opts.KCP, "root")).Delete(ctx, workspace); client.IgnoreNotFound(err) != nil {
		t.Error(err)
	}
	system := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "sandbar-" + runtimeName + "-system"}}
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"`+placement.AnnotationProvider+`":null}}}`))
	if err := clientOf(t, i.opts.Runtime).Patch(ctx, system, patch); client.IgnoreNotFound(err) != nil {
		t.Error(err)
	}
}

// run runs the controller with the narrow identities, as sandbar-provider controllers does.
func (i *installed) run(t *testing.T) {
	t.Helper()
	identity := func(file string) *rest.Config {
		t.Helper()
		c, err := clientcmd.BuildConfigFromFlags("", filepath.Join(i.opts.OutDir, file))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	scheme := runtime.NewScheme()
	if err := sandbarv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	mgr, err := ctrl.NewManager(identity(install.KCPKubeconfig), ctrl.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: new(true)},
	})
	if err != nil {
		t.Fatal(err)
	}
	names, err := placement.NamesOf(runtimeName)
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := runtimecluster.New(identity(install.ControllersKubeconfig), names)
	if err != nil {
		t.Fatal(err)
	}
	if err := Register(mgr, cluster, func() {}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// waitFor polls the Baseline until it has a reason, and as many workloads as it should.
func (i *installed) waitFor(t *testing.T, reason string, workloads int) *sandbarv1alpha1.Baseline {
	t.Helper()
	b := &sandbarv1alpha1.Baseline{}
	for deadline := time.Now().Add(3 * time.Minute); time.Now().Before(deadline); <-time.After(100 * time.Millisecond) {
		if err := i.kcp.Get(t.Context(), client.ObjectKey{Name: "shop"}, b); err != nil {
			t.Fatal(err)
		}
		ready := meta.FindStatusCondition(b.Status.Conditions, sandbarv1alpha1.BaselineReady)
		if ready != nil && ready.Reason == reason && len(b.Status.Workloads) == workloads {
			return b
		}
	}
	t.Fatalf("waited in vain for %s with %d workloads: %+v", reason, workloads, b.Status)
	return nil
}

// deploy makes a Deployment without pods.
func (i *installed) deploy(t *testing.T, namespace, name string) {
	t.Helper()
	d := objectOf(t, fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {namespace: %[1]s, name: %[2]s}
spec: {replicas: 0, selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: a}}, spec: {containers: [{name: app, image: "a:1"}]}}}`, namespace, name))
	if err := i.runtime.Create(t.Context(), d); err != nil {
		t.Fatal(err)
	}
}

// TestABaselineIsReadOnceAnAdministratorHasOpenedItsNamespace: on a real API server, with the identity that init writes.
func TestABaselineIsReadOnceAnAdministratorHasOpenedItsNamespace(t *testing.T) {
	i := newInstalled(t)
	namespace := fmt.Sprintf("baseline-test-%d", time.Now().UnixNano()%1e9)
	b := baselineOf(namespace)
	b.Generation = 0
	if err := i.kcp.Create(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	i.run(t)
	i.waitFor(t, reasonMissing, 0)

	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if err := i.runtime.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = i.runtime.Delete(context.Background(), ns) })
	i.deploy(t, namespace, "frontend")
	i.waitFor(t, reasonNotAllowed, 0)
	report, err := install.GrantBaselines(t.Context(), i.opts, []string{"shop"})
	if err != nil || len(report.Entries) != 2 {
		t.Fatalf("%+v, %v", report, err)
	}
	i.waitFor(t, reasonReady, 1)
	i.deploy(t, namespace, "api")
	before := i.waitFor(t, reasonReady, 2)

	<-time.After(5 * time.Second)
	if after := i.waitFor(t, reasonReady, 2); after.ResourceVersion != before.ResourceVersion {
		t.Errorf("it is written at rest: %s, then %s", before.ResourceVersion, after.ResourceVersion)
	}
	if report, err = install.GrantBaselines(t.Context(), i.opts, nil); err != nil || report.Entries[0].Action != install.Unchanged {
		t.Errorf("again: %+v, %v", report, err)
	}
	if err := i.kcp.Delete(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if report, err = install.GrantBaselines(t.Context(), i.opts, nil); err != nil || len(report.Entries) != 2 || report.Entries[0].Action != install.Deleted {
		t.Errorf("after its end: %+v, %v", report, err)
	}
	role := client.ObjectKey{Namespace: namespace, Name: "sandbar-" + runtimeName + "-baseline"}
	if err := i.runtime.Get(t.Context(), role, &rbacv1.Role{}); !apierrors.IsNotFound(err) {
		t.Errorf("the Role is still there: %v", err)
	}
}
