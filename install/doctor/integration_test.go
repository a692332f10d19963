// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package doctor

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/install"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// TestWhatSomebodyChangedIsFound installs a provider without processes and takes away from it.
func TestWhatSomebodyChangedIsFound(t *testing.T) {
	kcp, rt := configOf(t, "KCP_KUBECONFIG"), configOf(t, "STACK_RUNTIME_KUBECONFIG")
	name := fmt.Sprintf("sandbar-doctor-%d", time.Now().UnixNano()%1e9)
	opts := install.Options{
		KCP: kcp, Runtime: rt, Workspace: "root:" + name, ExportName: "sandbar.dev", OutDir: t.TempDir(), RuntimeName: "doctortest",
		Provider: sandbarv1alpha1.InfrastructureProviderSpec{
			DataPlane: sandbarv1alpha1.DataPlaneAddress{URL: "https://dataplane.test"},
			// Those of the stack, which other tests on the same runtime cluster rely on.
			Images: map[string]string{
				"runner": "localhost/sandbar/runner:dev", "node": "localhost/sandbar/toolchain-node:dev", "redis": "localhost/sandbar/redis:dev",
			},
		},
	}
	t.Cleanup(func() { deleteWorkspace(t, kcp, name); letGo(t, rt, "sandbar-doctortest-system") })
	if _, err := install.Init(t.Context(), opts); err != nil {
		t.Fatal(err)
	}
	look := func() map[string][]Finding {
		t.Helper()
		findings, err := Examine(t.Context(), Options{
			KCP: kcp, Runtime: rt, Workspace: opts.Workspace, ExportName: opts.ExportName, RuntimeName: opts.RuntimeName, IdentityDir: opts.OutDir,
		})
		if err != nil {
			t.Fatal(err)
		}
		by := map[string][]Finding{}
		for _, f := range findings {
			by[f.Check] = append(by[f.Check], f)
		}
		return by
	}
	first := look()
	for _, check := range []string{"kcp", "runtime", "clocks", "provider", "installed", "identities", "storage"} {
		if slices.ContainsFunc(first[check], func(f Finding) bool { return f.State != OK }) || len(first[check]) == 0 {
			t.Errorf("of a provider that was just installed, %s: %+v", check, first[check])
		}
	}
	expect(t, first["data plane"], "failed: dataplane.test does not answer from here")

	admin, err := client.New(install.WorkspaceConfig(kcp, opts.Workspace), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "sandbar-provider"}}
	if err := admin.Get(t.Context(), client.ObjectKeyFromObject(role), role); err != nil {
		t.Fatal(err)
	}
	role.Rules = role.Rules[1:]
	if err := admin.Update(t.Context(), role); err != nil {
		t.Fatal(err)
	}
	expect(t, look()["installed"], "failed: kcp: ClusterRole sandbar-provider would be updated")

	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: placement.SystemNamespace, Name: "sandbar-provider-serve"}}
	if err := admin.Delete(t.Context(), account); err != nil {
		t.Fatal(err)
	}
	broken := look()
	expect(t, broken["identities"], "ok: kcp.token", "failed: there is no ServiceAccount sandbar-system/sandbar-provider-serve", "ok: runtime-controllers.token", "ok: runtime-serve.token")
	if _, err := install.Init(t.Context(), opts); err != nil {
		t.Fatal(err)
	}
	mended := look()
	expect(t, mended["installed"], "ok: as this version installs them")
	for _, f := range mended["identities"] {
		if f.State != OK {
			t.Errorf("after init: %s", f.Detail)
		}
	}
}

// letGo lets go of a provider's name on the runtime cluster, for the next run.
func letGo(t *testing.T, runtime *rest.Config, namespace string) {
	t.Helper()
	c, err := client.New(runtime, client.Options{})
	if err != nil {
		t.Error(err)
		return
	}
	system := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+placement.AnnotationProvider+`":null}}}`))
	if err := c.Patch(context.Background(), system, patch); client.IgnoreNotFound(err) != nil {
		t.Error(err)
	}
}

func configOf(t *testing.T, variable string) *rest.Config {
	t.Helper()
	file := os.Getenv(variable)
	if file == "" {
		t.Fatalf("there is no stack: %s is not set (make test-integration sets it)", variable)
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func deleteWorkspace(t *testing.T, kcp *rest.Config, name string) {
	t.Helper()
	c, err := client.New(install.WorkspaceConfig(kcp, "root"), client.Options{})
	if err != nil {
		t.Error(err)
		return
	}
	workspace := &unstructured.Unstructured{}
	workspace.SetAPIVersion("tenancy.kcp.io/v1alpha1")
	workspace.SetKind("Workspace")
	workspace.SetName(name)
	if err := c.Delete(context.Background(), workspace); client.IgnoreNotFound(err) != nil {
		t.Error(err)
	}
}
