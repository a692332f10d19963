// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"

	"github.com/sandbar-dev/sandbar/bench/stage"
	"github.com/sandbar-dev/sandbar/hack/local"
)

const namespace = "default"

// caller has a token and an instance that is nobody else's to call.
type caller struct{ token, path string }

// crowd are callers of one workspace.
type crowd []caller

func newCrowd(ctx context.Context, stack *local.Stack, tenant *stage.Tenant) (crowd, error) {
	kube := kubernetes.NewForConfigOrDie(stack.KCPAdmin(tenant.Path))
	var all crowd
	for i := range callers {
		name := fmt.Sprintf("caller-%02d", i)
		c := caller{path: "/dataplane/clusters/" + tenant.Path + "/sandboxrunners/" + name + "/proxy/"}
		for _, step := range []func(context.Context) error{
			func(ctx context.Context) error { return makeInstance(ctx, tenant, name) },
			func(ctx context.Context) error { return makeCaller(ctx, kube, name) },
			func(ctx context.Context) (err error) { c.token, err = tokenOf(ctx, kube, name); return err },
		} {
			if err := stage.Insist(ctx, step); err != nil {
				return nil, fmt.Errorf("making %s: %w", name, err)
			}
		}
		all = append(all, c)
	}
	return all, nil
}

func makeInstance(ctx context.Context, tenant *stage.Tenant, name string) error {
	obj := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "sandbar.dev/v1alpha1", "kind": "SandboxRunner",
		"spec": map[string]any{"projectRef": "bench", "startCommand": "true", "suspended": true},
	}}
	obj.SetName(name)
	_, err := tenant.Runners.Create(ctx, obj, metav1.CreateOptions{})
	return err
}

// makeCaller makes a service account that may use the preview of one instance and nothing else.
func makeCaller(ctx context.Context, kube kubernetes.Interface, name string) error {
	meta := metav1.ObjectMeta{Name: name, Namespace: namespace}
	if _, err := kube.CoreV1().ServiceAccounts(namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	role := &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{"sandbar.dev"}, Resources: []string{"sandboxrunners", "sandboxrunners/proxy"},
		ResourceNames: []string{name}, Verbs: []string{"get"},
	}}}
	if _, err := kube.RbacV1().Roles(namespace).Create(ctx, role, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}},
	}
	_, err := kube.RbacV1().RoleBindings(namespace).Create(ctx, binding, metav1.CreateOptions{})
	return err
}

func tokenOf(ctx context.Context, kube kubernetes.Interface, name string) (string, error) {
	got, err := kube.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return got.Status.Token, nil
}

// ask sends one request as a caller and returns how long the answer took.
func (c caller) ask(ctx context.Context, client *http.Client, base string) (time.Duration, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+c.path, nil)
	if err != nil {
		return 0, err
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	started := time.Now()
	res, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(res.Body, 4<<10)) //nolint:forbidigo // 4 KiB
	if res.StatusCode != http.StatusConflict {
		return 0, fmt.Errorf("GET %s: %d %s", c.path, res.StatusCode, said)
	}
	return time.Since(started), nil
}

// inTurn lets each caller ask once, one after the other.
func (all crowd) inTurn(ctx context.Context, client *http.Client, base string) ([]time.Duration, error) {
	var took []time.Duration
	for _, c := range all {
		d, err := c.ask(ctx, client, base)
		if err != nil {
			return nil, err
		}
		took = append(took, d)
	}
	return took, nil
}

// spread sends the requests of all callers, spread over the window: an open loop.
func (all crowd) spread(ctx context.Context, client *http.Client, base string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*window)
	defer cancel()
	each := requests / len(all)
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, c := range all {
		wg.Go(func() {
			// Callers begin one after the other within the first interval.
			interval := window / time.Duration(each+1)
			timer := time.NewTimer(interval * time.Duration(i) / time.Duration(len(all)))
			defer timer.Stop()
			for range each {
				<-timer.C
				timer.Reset(interval)
				if _, err := c.ask(ctx, client, base); err != nil {
					errs[i] = err
					return
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
