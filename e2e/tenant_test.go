// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/sandbar-dev/sandbar/apis/builtin"
	"github.com/sandbar-dev/sandbar/hack/local"
	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

var (
	workspaces  = schema.GroupVersionResource{Group: "tenancy.kcp.io", Version: "v1alpha1", Resource: "workspaces"}
	apibindings = schema.GroupVersionResource{Group: "apis.kcp.io", Version: "v1alpha2", Resource: "apibindings"}
	runners     = schema.GroupVersionResource{Group: "sandbar.dev", Version: "v1alpha1", Resource: "sandboxrunners"}
	templates   = schema.GroupVersionResource{Group: "sandbar.dev", Version: "v1alpha1", Resource: "templates"}
	redis       = schema.GroupVersionResource{Group: "sandbar.dev", Version: "v1alpha1", Resource: "redis"}
)

// tenant is a workspace of its own with a person who is cluster-admin in it, as tenants are.
type tenant struct {
	t         *testing.T
	user      string // alice, bob, …
	token     string
	path      string // root:e2e-1a2b
	workspace string // e2e-1a2b
	cluster   string // logical cluster name
	admin     dynamic.Interface
	kube      kubernetes.Interface // as the person
	dyn       dynamic.Interface    // as the person
}

// newTenant makes a workspace, makes the person its cluster-admin and binds the API there as
// that person. The workspace is deleted when the test ends.
func newTenant(t *testing.T, user string) *tenant {
	t.Helper()
	tn := newWorkspace(t, user)
	tn.bind()
	return tn
}

func newWorkspace(t *testing.T, user string) *tenant {
	t.Helper()
	ctx := t.Context()
	name := "e2e-" + randomHex(4)
	root := dynamic.NewForConfigOrDie(world.Stack.KCPAdmin("root"))
	ws := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace",
		"metadata": map[string]any{"name": name},
	}}
	if _, err := root.Resource(workspaces).Create(ctx, ws, metav1.CreateOptions{}); err != nil {
		t.Fatalf("creating workspace %s: %v", name, err)
	}
	t.Cleanup(func() { leave(name) })
	tn := &tenant{t: t, user: user, workspace: name, path: "root:" + name, token: world.Stack.Token(user)}
	eventually(t, "workspace "+name+" is ready", func() error {
		got, err := root.Resource(workspaces).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		tn.cluster, _, _ = unstructured.NestedString(got.Object, "spec", "cluster")
		if phase, _, _ := unstructured.NestedString(got.Object, "status", "phase"); phase != "Ready" {
			return fmt.Errorf("phase %q", phase)
		}
		return nil
	})
	adminConfig := world.Stack.KCPAdmin(tn.path)
	tn.admin = dynamic.NewForConfigOrDie(adminConfig)
	tn.grant(rbacv1.RoleRef{Kind: "ClusterRole", Name: "cluster-admin"}, user)
	config := world.Stack.KCPUser(user, tn.path)
	tn.kube = kubernetes.NewForConfigOrDie(config)
	tn.dyn = dynamic.NewForConfigOrDie(config)
	return tn
}

// grant binds a role of the workspace to a user, as an administrator.
func (tn *tenant) grant(role rbacv1.RoleRef, user string) {
	tn.t.Helper()
	role.APIGroup = rbacv1.GroupName
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name + "-" + user + "-" + randomHex(3)},
		RoleRef:    role,
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
	}
	kube := kubernetes.NewForConfigOrDie(world.Stack.KCPAdmin(tn.path))
	// A new workspace serves its RBAC a moment after it is Ready.
	eventually(tn.t, "granting "+role.Name, func() error {
		_, err := kube.RbacV1().ClusterRoleBindings().Create(tn.t.Context(), binding, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
}

// admit lets somebody into the workspace with a role, and waits until kcp's authorizer knows of
// both: it learns of them from its own informers, a moment later.
func (tn *tenant) admit(role rbacv1.RoleRef, user string) {
	tn.t.Helper()
	tn.grant(role, user)
	tn.grant(rbacv1.RoleRef{Kind: "ClusterRole", Name: "system:kcp:workspace:access"}, user)
	kube := kubernetes.NewForConfigOrDie(world.Stack.KCPAdmin(tn.path))
	known, err := kube.RbacV1().ClusterRoles().Get(tn.t.Context(), role.Name, metav1.GetOptions{})
	if err != nil {
		tn.t.Fatalf("reading role %s: %v", role.Name, err)
	}
	rule := known.Rules[0]
	resource, subresource, _ := strings.Cut(rule.Resources[0], "/")
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user, Groups: []string{"system:authenticated"},
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Group: rule.APIGroups[0], Resource: resource, Subresource: subresource, Verb: rule.Verbs[0], Namespace: "default",
		},
	}}
	eventually(tn.t, "kcp knowing what "+user+" may", func() error {
		answer, err := kube.AuthorizationV1().SubjectAccessReviews().Create(tn.t.Context(), review, metav1.CreateOptions{})
		if err == nil && !answer.Status.Allowed {
			err = errors.New("it denies: " + answer.Status.Reason)
		}
		return err
	})
}

func (tn *tenant) role(name string, rules ...rbacv1.PolicyRule) rbacv1.RoleRef {
	tn.t.Helper()
	kube := kubernetes.NewForConfigOrDie(world.Stack.KCPAdmin(tn.path))
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
	if _, err := kube.RbacV1().ClusterRoles().Create(tn.t.Context(), role, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		tn.t.Fatalf("creating role %s: %v", name, err)
	}
	return rbacv1.RoleRef{Kind: "ClusterRole", Name: name}
}

// reviewsClaim is the permission claim of the export, accepted or rejected.
func reviewsClaim(state string) map[string]any {
	return map[string]any{
		"group": "authorization.k8s.io", "resource": "subjectaccessreviews", "verbs": []any{"create"},
		"selector": map[string]any{"matchAll": true}, "state": state,
	}
}

// eventsClaim lets the provider write events about instances.
func eventsClaim() map[string]any {
	return map[string]any{
		"group": "", "resource": "events", "verbs": []any{"create"},
		"selector": map[string]any{"matchAll": true}, "state": "Accepted",
	}
}

// bind binds the API as the person, with all that the export asks for, and waits until the kind
// is served in the workspace.
func (tn *tenant) bind() {
	tn.t.Helper()
	tn.bindWith(reviewsClaim("Accepted"), eventsClaim())
}

func (tn *tenant) bindWith(claims ...any) {
	tn.t.Helper()
	tn.bindTo(world, claims...)
}

// bindTo is bindWith for the API of a provider.
func (tn *tenant) bindTo(provider *local.Provider, claims ...any) {
	tn.t.Helper()
	ctx := tn.t.Context()
	binding := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding",
		"metadata": map[string]any{"name": "sandbar.dev"},
		"spec": map[string]any{"reference": map[string]any{"export": map[string]any{
			"path": provider.Workspace, "name": "sandbar.dev",
		}}, "permissionClaims": claims},
	}}
	eventually(tn.t, "binding the API", func() error {
		_, err := tn.dyn.Resource(apibindings).Create(ctx, binding, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
	eventually(tn.t, "sandboxrunners are served", func() error {
		_, err := tn.dyn.Resource(runners).Namespace("default").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		_, err = tn.kube.CoreV1().Namespaces().Get(ctx, "default", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
			_, err = tn.kube.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{})
		}
		return err
	})
	tn.waitRight(runners)
}

// waitRight waits until kcp lets the person use verbs of a kind that the binding brings: on a busy machine
// its authorizer learns of a new binding, or of a kind that is new in it, after the API is served, and
// tenants see the same.
func (tn *tenant) waitRight(gvr schema.GroupVersionResource) {
	tn.t.Helper()
	verb := "renew" // which all instances have
	if slices.ContainsFunc(builtin.Kinds, func(kind builtin.Kind) bool { return kind.GVR() == gvr }) {
		verb = ""
	}
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Group: gvr.Group, Resource: gvr.Resource, Subresource: verb, Verb: "create", Namespace: "default",
		},
	}}
	eventually(tn.t, "kcp knowing what "+tn.user+" may with "+gvr.Resource, func() error {
		answer, err := tn.kube.AuthorizationV1().SelfSubjectAccessReviews().Create(tn.t.Context(), review, metav1.CreateOptions{})
		if err == nil && !answer.Status.Allowed {
			err = errors.New("it denies: " + answer.Status.Reason)
		}
		return err
	})
}

// instance is an object of any kind of ours in the tenant's workspace.
type instance struct {
	tn   *tenant
	gvr  schema.GroupVersionResource
	name string
	id   placement.ID
}

func (tn *tenant) create(gvr schema.GroupVersionResource, kind, name string, spec map[string]any) *instance {
	tn.t.Helper()
	obj := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": gvr.GroupVersion().String(), "kind": kind,
		"metadata": map[string]any{"name": name, "namespace": "default"},
		"spec":     spec,
	}}
	made, err := tn.dyn.Resource(gvr).Namespace("default").Create(tn.t.Context(), obj, metav1.CreateOptions{})
	if err != nil {
		tn.t.Fatalf("creating %s %s: %v", kind, name, err)
	}
	created.Add(1)
	return &instance{tn: tn, gvr: gvr, name: name, id: placement.ID{Origin: tn.cluster, UID: made.GetUID()}}
}

// runner creates a SandboxRunner that runs the sample project's server.
func (tn *tenant) runner(name string) *instance {
	tn.t.Helper()
	return tn.create(runners, "SandboxRunner", name, map[string]any{
		"projectRef": "e2e", "startCommand": "exec node server.mjs",
	})
}

func (i *instance) get() (*unstructured.Unstructured, error) {
	return i.tn.dyn.Resource(i.gvr).Namespace("default").Get(i.tn.t.Context(), i.name, metav1.GetOptions{})
}

func (i *instance) delete() {
	i.tn.t.Helper()
	err := i.tn.dyn.Resource(i.gvr).Namespace("default").Delete(i.tn.t.Context(), i.name, metav1.DeleteOptions{})
	if err != nil && !export.IsGone(err) {
		i.tn.t.Fatalf("deleting %s: %v", i.name, err)
	}
}

// waitReady waits for the condition Ready and returns the object.
func (i *instance) waitReady() *unstructured.Unstructured {
	i.tn.t.Helper()
	var obj *unstructured.Unstructured
	eventually(i.tn.t, i.name+" is Ready", func() (err error) {
		if obj, err = i.get(); err != nil {
			return err
		}
		return conditionError(obj, "Ready", metav1.ConditionTrue)
	})
	return obj
}

// conditionError is nil when the condition has the status, else it tells what it says.
func conditionError(obj *unstructured.Unstructured, kind string, want metav1.ConditionStatus) error {
	c := condition(obj, kind)
	if c == nil {
		return fmt.Errorf("no condition %s yet", kind)
	}
	if c["status"] != string(want) {
		return fmt.Errorf("%s is %v: %v: %v", kind, c["status"], c["reason"], c["message"])
	}
	return nil
}

func condition(obj *unstructured.Unstructured, kind string) map[string]any {
	list, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	for _, c := range list {
		if m, ok := c.(map[string]any); ok && m["type"] == kind {
			return m
		}
	}
	return nil
}

// waitGone waits until nothing of the placement is left on the runtime cluster.
func waitGone(t *testing.T, id placement.ID) {
	t.Helper()
	waitGoneFrom(t, world.Stack, id)
}

// waitGoneFrom is waitGone on the node of a stack.
func waitGoneFrom(t *testing.T, stack *local.Stack, id placement.ID) {
	t.Helper()
	kube := kubernetes.NewForConfigOrDie(stack.Runtime())
	eventually(t, "nothing is left of "+id.Namespace(), func() error {
		ns, err := kube.CoreV1().Namespaces().Get(t.Context(), id.Namespace(), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		return fmt.Errorf("namespace is %s: %v", ns.Status.Phase, ns.Status.Conditions)
	})
}

// patience is how long the tests wait for anything: far longer than it takes on a machine that has much
// else to do, so that no test fails because of its machine. A test that passes never waits it out.
func patience() time.Duration {
	if os.Getenv(longVariable) != "" {
		return 10 * time.Minute // some of these wait for the product's own minutes
	}
	return 3 * time.Minute
}

// eventually waits until check is nil, and shows its last error when patience ends.
func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	if err := poll(t.Context(), patience(), check); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// How long poll leaves a server alone: a while that grows by a quarter each time, since a server that is busy gets
// no faster by questions.
const (
	shortestPause = 100 * time.Millisecond
	longestPause  = 400 * time.Millisecond
)

// poll asks a real server until check is nil. It is the one place in these tests where time
// passes; the deadline is far above what is expected.
func poll(ctx context.Context, deadline time.Duration, check func() error) error {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	for pause := shortestPause; ; pause = min(pause*5/4, longestPause) {
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not within %v; last: %w", deadline, err)
		case <-time.After(pause):
		}
	}
}

func randomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return hex.EncodeToString(b)
}
