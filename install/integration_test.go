// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package install

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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/offer"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/platform"
)

// stackOptions prepare a workspace of the test's own on the stack that the environment names.
func stackOptions(t *testing.T) Options {
	t.Helper()
	kcpFile, runtimeFile := os.Getenv("KCP_KUBECONFIG"), os.Getenv("STACK_RUNTIME_KUBECONFIG")
	if kcpFile == "" || runtimeFile == "" {
		t.Fatal("no stack: KCP_KUBECONFIG and STACK_RUNTIME_KUBECONFIG are not set (make test-integration sets them)")
	}
	kcp, err := clientcmd.BuildConfigFromFlags("", kcpFile)
	if err != nil {
		t.Fatal(err)
	}
	rt, err := clientcmd.BuildConfigFromFlags("", runtimeFile)
	if err != nil {
		t.Fatal(err)
	}
	workspace := fmt.Sprintf("root:sandbar-init-%d", time.Now().UnixNano()%1e9)
	t.Cleanup(func() { deleteWorkspace(t, kcp, workspace); letGo(t, rt) })
	return Options{
		KCP: kcp, Runtime: rt, Workspace: workspace, ExportName: "sandbar.dev", RuntimeName: testRuntimeName,
		// Those of the stack, which other tests on the same runtime cluster rely on.
		Provider: sandbarv1alpha1.InfrastructureProviderSpec{
			DataPlane: sandbarv1alpha1.DataPlaneAddress{URL: "https://dataplane.test"},
			Images: map[string]string{
				"runner": "localhost/sandbar/runner:dev", "node": "localhost/sandbar/toolchain-node:dev", "redis": "localhost/sandbar/redis:dev",
			},
		},
		OutDir:   t.TempDir(),
		Progress: func(line string) { t.Log(line) },
	}
}

// testRuntimeName keeps what the tests install apart from the provider of the stack.
const testRuntimeName = "inittest"

// letGo lets go of the name, for the next test.
func letGo(t *testing.T, runtimeCluster *rest.Config) {
	t.Helper()
	c, err := kubernetes.NewForConfig(runtimeCluster)
	if err != nil {
		t.Error(err)
		return
	}
	patch := []byte(`{"metadata":{"annotations":{"` + placement.AnnotationProvider + `":null}}}`)
	_, err = c.CoreV1().Namespaces().Patch(context.Background(), "sandbar-"+testRuntimeName+"-system", types.MergePatchType, patch, metav1.PatchOptions{})
	if client.IgnoreNotFound(err) != nil {
		t.Error(err)
	}
}

func deleteWorkspace(t *testing.T, kcp *rest.Config, path string) {
	t.Helper()
	c, err := client.New(WorkspaceConfig(kcp, "root"), client.Options{Scheme: runtime.NewScheme()})
	if err != nil {
		t.Error(err)
		return
	}
	workspace := &unstructured.Unstructured{}
	workspace.SetGroupVersionKind(workspaceKind)
	workspace.SetName(strings.TrimPrefix(path, "root:"))
	if err := c.Delete(context.Background(), workspace); client.IgnoreNotFound(err) != nil {
		t.Error(err)
	}
}

func TestInitAgainChangesNothing(t *testing.T) {
	opts := stackOptions(t)
	opts.DryRun = true
	if _, err := Init(t.Context(), opts); err != nil {
		t.Fatalf("dry run: %v", err)
	}
	opts.DryRun = false
	report, err := Init(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	if e := report.Entries[0]; e.Kind != "Workspace" || e.Action != Created {
		t.Errorf("first = %+v, want the workspace created now: the dry run must not have made it", e)
	}
	report, err = Init(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range report.Entries {
		if e.Action != Unchanged {
			t.Errorf("%+v, want unchanged", e)
		}
	}
}

// Earlier versions kept tokens without an end in Secrets. They stay until there are files to use instead.
func TestInitVoidsTheTokensOfEarlierVersions(t *testing.T) {
	opts := stackOptions(t)
	if _, err := Init(t.Context(), opts); err != nil {
		t.Fatal(err)
	}
	kcp, err := kubernetes.NewForConfig(WorkspaceConfig(opts.KCP, opts.Workspace))
	if err != nil {
		t.Fatal(err)
	}
	rt, err := kubernetes.NewForConfig(opts.Runtime)
	if err != nil {
		t.Fatal(err)
	}
	sides := map[string]kubernetes.Interface{"kcp": kcp, "runtime": rt}
	namespaces := map[string]string{"kcp": placement.SystemNamespace, "runtime": "sandbar-" + testRuntimeName + "-system"}
	for side, kube := range sides {
		for _, name := range legacyTokens[side] {
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: map[string]string{"token": "without an end"}}
			if _, err := kube.CoreV1().Secrets(namespaces[side]).Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	without := opts
	var said strings.Builder
	without.OutDir, without.Progress = "", func(line string) { said.WriteString(line) }
	if _, err := Init(t.Context(), without); err != nil {
		t.Fatal(err)
	}
	for _, name := range legacyTokens["kcp"] { // on the runtime cluster another test's init may have been there
		if _, err := kcp.CoreV1().Secrets(placement.SystemNamespace).Get(t.Context(), name, metav1.GetOptions{}); err != nil {
			t.Errorf("without --out, Secret %s: %v", name, err)
		}
		if !strings.Contains(said.String(), name+" holds a token that never expires: run init with --out") {
			t.Errorf("nothing is said of Secret %s", name)
		}
	}
	report, err := Init(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	for side, kube := range sides {
		for _, name := range legacyTokens[side] {
			if _, err := kube.CoreV1().Secrets(namespaces[side]).Get(t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				t.Errorf("%s: Secret %s is still there (%v)", side, name, err)
			}
		}
	}
	deleted := 0
	for _, e := range report.Entries {
		if e.Action == Deleted && e.Kind == "Secret" {
			deleted++
		}
	}
	if deleted < len(legacyTokens["kcp"]) {
		t.Errorf("the report has %d Secrets that were deleted: %v", deleted, report.Entries)
	}
}

// kcp is an API server without kro.
func TestWithoutKroNothingIsApplied(t *testing.T) {
	opts := stackOptions(t)
	opts.Runtime = opts.KCP
	report, err := Init(t.Context(), opts)
	if !errors.Is(err, platform.ErrKroMissing) {
		t.Fatalf("err = %v, want ErrKroMissing", err)
	}
	if len(report.Entries) > 0 {
		t.Errorf("something was done: %v", report.Entries)
	}
	if there, err := ready(t.Context(), opts, opts.Workspace); err != nil || there {
		t.Errorf("the workspace exists (%v, %v)", there, err)
	}
}

// The stack's kro has the rights of its chart's mode aggregation; another ServiceAccount is cluster-admin.
func TestInitSaysWhenKroMayDoAnything(t *testing.T) {
	opts := stackOptions(t)
	var said strings.Builder
	opts.Progress = func(line string) { said.WriteString(line) }
	a, err := newApplier("runtime", opts.Runtime, opts, &Report{})
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("sandbar-init-%d", time.Now().UnixNano()%1e9)
	account := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ServiceAccount", "metadata": map[string]any{"name": name, "namespace": "default"},
	}}
	binding := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": rbacv1.SchemeGroupVersion.String(), "kind": "ClusterRoleBinding", "metadata": map[string]any{"name": name},
		"roleRef":  map[string]any{"apiGroup": rbacv1.GroupName, "kind": "ClusterRole", "name": "cluster-admin"},
		"subjects": []any{map[string]any{"kind": "ServiceAccount", "namespace": "default", "name": name}},
	}}
	for _, object := range []*unstructured.Unstructured{account, binding} {
		if err := a.client.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := a.client.Delete(context.Background(), object); err != nil {
				t.Error(err)
			}
		})
	}
	for account, want := range map[string]bool{DefaultKroServiceAccount: false, "default/" + name: true} {
		said.Reset()
		a.opts.KroServiceAccount = account
		if err := a.checkKro(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(said.String(), "may do anything"); got != want {
			t.Errorf("%s: said %q", account, said.String())
		}
	}
}

// What a thief of the provider's kubeconfig could do in its workspace.
func TestTheProvidersIdentityIsNoAdmin(t *testing.T) {
	opts := stackOptions(t)
	if _, err := Init(t.Context(), opts); err != nil {
		t.Fatal(err)
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", filepath.Join(opts.OutDir, KCPKubeconfig))
	if err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	if err := sandbarv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.List(t.Context(), &sandbarv1alpha1.TemplateList{}); err != nil {
		t.Errorf("it cannot list Templates: %v", err)
	}
	role := &rbacv1.ClusterRole{}
	if err := c.Get(t.Context(), client.ObjectKey{Name: offer.PolicyRole}, role); err != nil {
		t.Fatalf("it cannot read the policy: %v", err)
	}
	everything := []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}}
	other := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "mine"}, Rules: everything}
	own := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "sandbar-provider"}, Rules: everything}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "mine"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: offer.PolicyRole},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "sandbar-system", Name: "sandbar-provider"}},
	}
	for what, err := range map[string]error{
		"make a role":       c.Create(t.Context(), other),
		"widen its role":    c.Update(t.Context(), own),
		"bind itself":       c.Create(t.Context(), binding),
		"delete a Template": c.Delete(t.Context(), &sandbarv1alpha1.Template{ObjectMeta: metav1.ObjectMeta{Name: "redis"}}),
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("it may %s: %v", what, err)
		}
	}
}

// The stack's DNS listens at 5353 in its pods.
func TestInitFindsTheDNSOfTheClusterAndLeavesAnOperatorsSetting(t *testing.T) {
	opts := stackOptions(t)
	provider := &unstructured.Unstructured{}
	provider.SetGroupVersionKind(sandbarv1alpha1.GroupVersion.WithKind("InfrastructureProvider"))
	provider.SetName(sandbarv1alpha1.InfrastructureProviderName)
	c, err := client.New(WorkspaceConfig(opts.KCP, opts.Workspace), client.Options{Scheme: runtime.NewScheme()})
	if err != nil {
		t.Fatal(err)
	}
	run := func(ports, says string) {
		t.Helper()
		report, err := Init(t.Context(), opts)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(provider), provider); err != nil {
			t.Fatal(err)
		}
		set, _, _ := unstructured.NestedMap(provider.Object, dnsPath...)
		if want := "map[namespace:kube-system podLabels:map[k8s-app:kube-dns] ports:" + ports + "]"; fmt.Sprint(set) != want {
			t.Errorf("%s is %v, want %s", dnsField, set, want)
		}
		if said := strings.Join(report.Notes, "\n"); !strings.Contains(said, says) {
			t.Errorf("the report says %q, want %q", said, says)
		}
	}
	run("[5353]", "is set to what was found on the runtime cluster by Service kube-system/kube-dns")
	run("[5353]", "is set to what was found")
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"isolation":{"egress":{"dns":{"ports":[1053]}}}}}`))
	if err := c.Patch(t.Context(), provider.DeepCopy(), patch, client.FieldOwner("an-operator")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		run("[1053]", "stays as an-operator has set it")
	}
	// The field is given back by its removal.
	patch = client.RawPatch(types.JSONPatchType, []byte(`[{"op":"remove","path":"/spec/isolation/egress/dns"}]`))
	if err := c.Patch(t.Context(), provider.DeepCopy(), patch, client.FieldOwner("an-operator")); err != nil {
		t.Fatal(err)
	}
	run("[5353]", "is set to what was found")
}
