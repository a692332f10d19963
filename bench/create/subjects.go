// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/sandbar-dev/sandbar/hack/local"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

const (
	sandboxRunner = "sandboxrunner"
	bareKro       = "bare-kro"
	// oneTimeout bounds a single create to Ready; a run that meets it has failed.
	oneTimeout = 2 * time.Minute
)

var (
	runners    = schema.GroupVersionResource{Group: "sandbar.dev", Version: "v1alpha1", Resource: "sandboxrunners"}
	workspaces = schema.GroupVersionResource{Group: "tenancy.kcp.io", Version: "v1alpha1", Resource: "workspaces"}
	bindings   = schema.GroupVersionResource{Group: "apis.kcp.io", Version: "v1alpha2", Resource: "apibindings"}
)

// subject is one way to make the same thing.
type subject interface {
	name() string
	// measure makes one, waits until it is Ready, deletes it, and returns the time to Ready.
	measure(ctx context.Context, name string) (time.Duration, error)
}

// subjects are both sides of the comparison.
type subjects struct {
	tenant *tenant
	bare   *bare
	root   dynamic.Interface
}

func (s *subjects) all() []subject { return []subject{s.tenant, s.bare} }

// tenant makes SandboxRunners in a workspace of its own, with a tenant's token.
type tenant struct{ objects dynamic.ResourceInterface }

// bare makes kro instances of the same graph on the runtime cluster itself.
type bare struct {
	dyn  dynamic.Interface
	kube kubernetes.Interface
}

func newSubjects(ctx context.Context, stack *local.Stack) (*subjects, error) {
	root := dynamic.NewForConfigOrDie(stack.KCPAdmin("root"))
	b := make([]byte, 4)
	_, _ = rand.Read(b)
	s := &subjects{root: root, tenant: &tenant{}, bare: &bare{
		dyn:  dynamic.NewForConfigOrDie(stack.Runtime()),
		kube: kubernetes.NewForConfigOrDie(stack.Runtime()),
	}}
	workspace := "bench-" + hex.EncodeToString(b)
	if err := create(ctx, root.Resource(workspaces), "tenancy.kcp.io/v1alpha1", "Workspace", workspace, nil); err != nil {
		return nil, err
	}
	admin := kubernetes.NewForConfigOrDie(stack.KCPAdmin("root:" + workspace))
	dyn := dynamic.NewForConfigOrDie(stack.KCPUser("alice", "root:"+workspace))
	s.tenant.objects = dyn.Resource(runners).Namespace("default")
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "alice"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "alice"}},
	}
	export := map[string]any{"reference": map[string]any{"export": map[string]any{"path": "root:sandbar", "name": "sandbar.dev"}}}
	for _, step := range []func(context.Context) error{
		func(ctx context.Context) error {
			_, err := admin.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{})
			return err
		},
		func(ctx context.Context) error {
			return create(ctx, dyn.Resource(bindings), "apis.kcp.io/v1alpha2", "APIBinding", "sandbar.dev", export)
		},
		func(ctx context.Context) error {
			_, err := s.tenant.objects.List(ctx, metav1.ListOptions{})
			return err
		},
	} {
		if err := insist(ctx, step); err != nil {
			return nil, fmt.Errorf("preparing workspace %s: %w", workspace, err)
		}
	}
	return s, nil
}

// insist tries a step until it holds: a new workspace serves its APIs a moment after it exists.
func insist(ctx context.Context, step func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		last = step(ctx)
		return last == nil || apierrors.IsAlreadyExists(last), nil
	})
	if err != nil {
		return errors.Join(err, last)
	}
	return nil
}

func create(ctx context.Context, objects dynamic.ResourceInterface, apiVersion, kind, name string, spec map[string]any) error {
	obj := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": name},
	}}
	if spec != nil {
		obj.Object["spec"] = spec
	}
	_, err := objects.Create(ctx, obj, metav1.CreateOptions{})
	return err
}

func (s *subjects) cleanUp() {
	list, err := s.root.Resource(workspaces).List(context.Background(), metav1.ListOptions{})
	if err != nil {
		return
	}
	for _, w := range list.Items {
		if len(w.GetName()) > 6 && w.GetName()[:6] == "bench-" {
			_ = s.root.Resource(workspaces).Delete(context.Background(), w.GetName(), metav1.DeleteOptions{})
		}
	}
}

func (*tenant) name() string { return sandboxRunner }
func (*bare) name() string   { return bareKro }

func spec() map[string]any {
	return map[string]any{"projectRef": "bench", "startCommand": "sleep 1000000"}
}

func (t *tenant) measure(ctx context.Context, name string) (time.Duration, error) {
	return timeToReady(ctx, t.objects, name, nil)
}

func (b *bare) measure(ctx context.Context, name string) (time.Duration, error) {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "bench-" + name + "-"}}
	ns, err := b.kube.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{})
	if err != nil {
		return 0, fmt.Errorf("making a namespace: %w", err)
	}
	defer func() { _ = b.kube.CoreV1().Namespaces().Delete(context.Background(), ns.Name, metav1.DeleteOptions{}) }()
	labels := map[string]string{placement.LabelInstanceUID: string(ns.UID)}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: placement.ControlSecret, Labels: labels},
		StringData: map[string]string{placement.ControlTokenKey: rand.Text() + rand.Text()},
	}
	if _, err := b.kube.CoreV1().Secrets(ns.Name).Create(ctx, secret, metav1.CreateOptions{}); err != nil {
		return 0, fmt.Errorf("making the control Secret: %w", err)
	}
	return timeToReady(ctx, b.dyn.Resource(runners).Namespace(ns.Name), name, labels)
}

// timeToReady creates an object and watches it until its condition Ready is true; it deletes
// the object and waits until it is gone, so that one measurement does not disturb the next.
func timeToReady(ctx context.Context, objects dynamic.ResourceInterface, name string, labels map[string]string) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, oneTimeout)
	defer cancel()
	selector := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String()}
	events, err := objects.Watch(ctx, selector)
	if err != nil {
		return 0, fmt.Errorf("watching: %w", err)
	}
	defer events.Stop()
	obj := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "sandbar.dev/v1alpha1", "kind": "SandboxRunner", "spec": spec(),
	}}
	obj.SetName(name)
	obj.SetLabels(labels)
	start := time.Now()
	if _, err := objects.Create(ctx, obj, metav1.CreateOptions{}); err != nil {
		return 0, fmt.Errorf("creating %s: %w", name, err)
	}
	if err := until(ctx, events, func(e watch.Event) bool { return e.Type != watch.Deleted && ready(e.Object) }); err != nil {
		return 0, fmt.Errorf("waiting for %s: %w", name, err)
	}
	took := time.Since(start)
	if err := objects.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return 0, fmt.Errorf("deleting %s: %w", name, err)
	}
	if err := until(ctx, events, func(e watch.Event) bool { return e.Type == watch.Deleted }); err != nil {
		return 0, fmt.Errorf("waiting for the end of %s: %w", name, err)
	}
	return took, nil
}

func until(ctx context.Context, events watch.Interface, done func(watch.Event) bool) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e, ok := <-events.ResultChan():
			if !ok {
				return errors.New("the watch ended")
			}
			if done(e) {
				return nil
			}
		}
	}
}

func ready(obj any) bool {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return false
	}
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, c := range conditions {
		if m, ok := c.(map[string]any); ok && m["type"] == "Ready" {
			return m["status"] == "True"
		}
	}
	return false
}
