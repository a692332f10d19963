// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/sandbar-dev/sandbar/bench/stage"
	"github.com/sandbar-dev/sandbar/hack/local"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

const (
	sandboxRunner = "sandboxrunner"
	bareKro       = "bare-kro"
)

var runners = schema.GroupVersionResource{Group: "sandbar.dev", Version: "v1alpha1", Resource: "sandboxrunners"}

// subject is one way to make the same thing.
type subject interface {
	name() string
	// measure makes one, waits until it is Ready, deletes it, and returns the time to Ready.
	measure(ctx context.Context, name string) (time.Duration, error)
}

// subjects are both sides of the comparison.
type subjects struct {
	tenant tenant
	bare   bare
}

func (s *subjects) all() []subject { return []subject{s.tenant, s.bare} }

// tenant makes SandboxRunners in a workspace of its own, with a tenant's token.
type tenant struct{ *stage.Tenant }

// bare makes kro instances of the same graph on the runtime cluster itself.
type bare struct {
	dyn  dynamic.Interface
	kube kubernetes.Interface
}

func newSubjects(ctx context.Context, stack *local.Stack) (*subjects, error) {
	workspace, err := stage.NewTenant(ctx, stack)
	if err != nil {
		return nil, err
	}
	return &subjects{tenant: tenant{workspace}, bare: bare{
		dyn:  dynamic.NewForConfigOrDie(stack.Runtime()),
		kube: kubernetes.NewForConfigOrDie(stack.Runtime()),
	}}, nil
}

func (s *subjects) cleanUp() {
	if err := s.tenant.Close(); err != nil {
		fmt.Fprintf(os.Stderr, "bench-create: deleting the workspace: %v\n", err)
	}
}

func (tenant) name() string { return sandboxRunner }
func (bare) name() string   { return bareKro }

func object(name string, labels map[string]string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "sandbar.dev/v1alpha1", "kind": "SandboxRunner",
		"spec": map[string]any{"projectRef": "bench", "startCommand": "sleep 1000000"},
	}}
	obj.SetName(name)
	obj.SetLabels(labels)
	return obj
}

func (t tenant) measure(ctx context.Context, name string) (time.Duration, error) {
	return stage.TimeToReady(ctx, t.Runners, object(name, nil))
}

func (b bare) measure(ctx context.Context, name string) (time.Duration, error) {
	// kro may write in namespaces that are named like placements only.
	id := placement.ID{Origin: "bench-create", UID: types.UID(rand.Text())}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: id.Namespace()}}
	ns, err := b.kube.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{})
	if err != nil {
		return 0, fmt.Errorf("making a namespace: %w", err)
	}
	defer func() { _ = b.kube.CoreV1().Namespaces().Delete(context.Background(), ns.Name, metav1.DeleteOptions{}) }()
	labels := map[string]string{placement.LabelInstanceUID: string(id.UID)}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: placement.ControlSecret, Labels: labels},
		StringData: map[string]string{placement.ControlTokenKey: rand.Text() + rand.Text()},
	}
	if _, err := b.kube.CoreV1().Secrets(ns.Name).Create(ctx, secret, metav1.CreateOptions{}); err != nil {
		return 0, fmt.Errorf("making the control Secret: %w", err)
	}
	return stage.TimeToReady(ctx, b.dyn.Resource(runners).Namespace(ns.Name), object(name, labels))
}
