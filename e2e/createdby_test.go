// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/client"
)

// creatorOf is the user that the status of an object names.
func creatorOf(obj *unstructured.Unstructured) string {
	name, _, _ := unstructured.NestedString(obj.Object, "status", "createdBy", "username")
	return name
}

// TestNobodyWritesAnotherCreator: the annotation sandbar.dev/created-by is the name of the user who has created an object of
// any kind of the export, or it is not there, and it stays as it is.
func TestNobodyWritesAnotherCreator(t *testing.T) {
	calm(t)
	tn := newTenant(t, "alice")
	tn.waitServed(sandboxes)
	tn.grant(rbacv1.RoleRef{Kind: "ClusterRole", Name: "cluster-admin"}, "bob")
	bob := dynamic.NewForConfigOrDie(world.Stack.KCPUser("bob", tn.path))
	me, err := client.WhoAmI(t.Context(), world.Stack.KCPUser("alice", tn.path))
	if err != nil {
		t.Fatal(err)
	}
	alice := me.Username

	attempts := 0
	create := func(as dynamic.Interface, kind createdKind, creator string) (*unstructured.Unstructured, error) {
		attempts++
		obj := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "sandbar.dev/v1alpha1", "kind": kind.name, "metadata": map[string]any{"name": fmt.Sprintf("made-%d", attempts)}, "spec": kind.spec,
		}}
		if creator != "" {
			obj.SetAnnotations(map[string]string{sandbarv1alpha1.AnnotationCreatedBy: creator})
		}
		return as.Resource(kind.gvr).Namespace("default").Create(t.Context(), obj, metav1.CreateOptions{})
	}
	refused := func(what string, err error, words string) {
		t.Helper()
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v, want a refusal that tells %q", what, err, words)
		}
	}
	for _, kind := range createdKinds(t) {
		t.Run(kind.name, func(t *testing.T) {
			_, err := create(tn.dyn, kind, "bob")
			refused("another's name", err, "write "+alice+", or leave it out")
			signed, err := create(tn.dyn, kind, alice)
			if err != nil {
				t.Fatalf("the own name: %v", err)
			}
			plain, err := create(tn.dyn, kind, "")
			if err != nil {
				t.Fatalf("no name: %v", err)
			}
			change := func(as dynamic.Interface, obj *unstructured.Unstructured, value string) error {
				patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, sandbarv1alpha1.AnnotationCreatedBy, value)
				_, err := as.Resource(kind.gvr).Namespace("default").Patch(t.Context(), obj.GetName(), types.MergePatchType, []byte(patch), metav1.PatchOptions{})
				return err
			}
			refused("a change by another", change(bob, signed, `"bob"`), "does not change; write "+alice)
			refused("a change by the creator", change(tn.dyn, signed, `"bob"`), "does not change; write "+alice)
			refused("a removal", change(tn.dyn, signed, `null`), "does not change; write "+alice)
			refused("an addition by another", change(bob, plain, `"bob"`), "and not later; leave it out")
			refused("an addition by the creator", change(tn.dyn, plain, `"`+alice+`"`), "and not later; leave it out")
			other := []byte(`{"metadata":{"annotations":{"note":"x"}}}`)
			for _, obj := range []*unstructured.Unstructured{signed, plain} {
				if _, err := bob.Resource(kind.gvr).Namespace("default").Patch(t.Context(), obj.GetName(), types.MergePatchType, other, metav1.PatchOptions{}); err != nil {
					t.Errorf("another annotation: %v", err)
				}
			}
		})
	}
	t.Run("a ServiceAccount that is called like the controllers'", func(t *testing.T) {
		_, err := create(tn.likeTheControllers(), createdKinds(t)[0], "bob")
		refused("another's name", err, "names another user than you")
	})
	t.Run("the status", func(t *testing.T) {
		kind := createdKinds(t)[0]
		signed, err := create(tn.dyn, kind, alice)
		if err != nil {
			t.Fatal(err)
		}
		plain, err := create(tn.dyn, kind, "")
		if err != nil {
			t.Fatal(err)
		}
		for obj, want := range map[*unstructured.Unstructured]string{signed: alice, plain: ""} {
			eventually(t, "the status names the creator", func() error {
				got, err := tn.dyn.Resource(kind.gvr).Namespace("default").Get(t.Context(), obj.GetName(), metav1.GetOptions{})
				if err != nil {
					return err
				}
				if phase, _, _ := unstructured.NestedString(got.Object, "status", "phase"); phase == "" || creatorOf(got) != want {
					return fmt.Errorf("phase %q, creator %q, want %q", phase, creatorOf(got), want)
				}
				return nil
			})
		}
	})
	t.Run("the command line", func(t *testing.T) {
		s := newTerminal(t, tn)
		s.must("create", "sandbox", "typed", "--set", "suspended=true", "--set", "template.templateRef.name=none")
		if got := s.must("get", "sandbox", "typed", "-o", "jsonpath={.metadata.annotations.sandbar\\.dev/created-by}"); strings.TrimSpace(got) != alice {
			t.Errorf("the creator is %q, want %q", got, alice)
		}
		if got := s.must("describe", "sandbox", "typed"); !strings.Contains(got, "Creator:") || !strings.Contains(got, alice) {
			t.Errorf("describe: %s", got)
		}
	})
	t.Run("a SandboxClaim's Sandbox has the creator of the claim", func(t *testing.T) {
		tn := tn.on(t)
		if err := tn.claimWith("signed", `{templateRef: {name: none}, claimTimeout: 1m}`, map[string]string{sandbarv1alpha1.AnnotationCreatedBy: alice}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the Sandbox of the claim", func() error {
			list, err := tn.dyn.Resource(sandboxes).Namespace("default").List(t.Context(), metav1.ListOptions{LabelSelector: "sandbar.dev/claim=signed"})
			if err != nil {
				return err
			}
			if len(list.Items) == 0 {
				return errors.New("there is none yet")
			}
			if got := list.Items[0].GetAnnotations()[sandbarv1alpha1.AnnotationCreatedBy]; got != alice {
				t.Fatalf("its creator is %q, want %q", got, alice)
			}
			return nil
		})
	})
}

// createdKind is a kind of the export with a spec that makes nothing.
type createdKind struct {
	name string
	gvr  schema.GroupVersionResource
	spec map[string]any
}

func createdKinds(t *testing.T) []createdKind {
	t.Helper()
	gvr := func(resource string) schema.GroupVersionResource {
		return schema.GroupVersionResource{Group: "sandbar.dev", Version: "v1alpha1", Resource: resource}
	}
	pod := map[string]any{"podTemplate": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "main", "image": toolchain}}}}}
	none := map[string]any{"kind": "SandboxTemplate", "name": "none"}
	return []createdKind{
		{"Sandbox", gvr("sandboxes"), map[string]any{"suspended": true, "template": pod}},
		{"SandboxRunner", gvr("sandboxrunners"), map[string]any{"suspended": true, "projectRef": "e2e"}},
		{"SandboxTemplate", gvr("sandboxtemplates"), map[string]any{"template": pod["podTemplate"]}},
		{"SandboxSet", gvr("sandboxsets"), map[string]any{"replicas": int64(0), "templateRef": none}},
		{"SandboxClaim", gvr("sandboxclaims"), map[string]any{"templateRef": none, "claimTimeout": "1s"}},
	}
}

// likeTheControllers acts as a ServiceAccount of the tenant's workspace with the name that the controllers' has in theirs.
func (tn *tenant) likeTheControllers() dynamic.Interface {
	tn.t.Helper()
	ctx, meta := tn.t.Context(), metav1.ObjectMeta{Name: "sandbar-provider", Namespace: "sandbar-system"}
	if _, err := tn.kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: meta.Namespace}}, metav1.CreateOptions{}); err != nil {
		tn.t.Fatal(err)
	}
	if _, err := tn.kube.CoreV1().ServiceAccounts(meta.Namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{}); err != nil {
		tn.t.Fatal(err)
	}
	_, err := tn.kube.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "like-the-controllers"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Name: meta.Name, Namespace: meta.Namespace}},
	}, metav1.CreateOptions{})
	if err != nil {
		tn.t.Fatal(err)
	}
	token, err := tn.kube.CoreV1().ServiceAccounts(meta.Namespace).CreateToken(ctx, meta.Name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		tn.t.Fatal(err)
	}
	config := rest.AnonymousClientConfig(world.Stack.KCPUser(tn.user, tn.path))
	config.BearerToken = token.Status.Token
	return dynamic.NewForConfigOrDie(config)
}
