// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wire "github.com/sandbar-dev/sandbar/apis/intercept"
	"github.com/sandbar-dev/sandbar/pkg/intercept"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// proxiedNamespace is the namespace of the generated Roles of interception and proxy, which stands for each.
const proxiedNamespace = "interception"

// grantProxies lets the controllers put proxies in front of Services of a namespace.
func (a *applier) grantProxies(ctx context.Context, namespace string) error {
	there := &unstructured.Unstructured{}
	there.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	err := a.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: intercept.RoutesConfigMap}, there)
	if err != nil && !notThere(err) {
		return fmt.Errorf("looking for proxies in namespace %s: %w", namespace, err)
	}
	// Two providers would have each other's proxies for their own.
	if other := there.GetAnnotations()[placement.AnnotationProvider]; err == nil && other != a.opts.provider {
		return fmt.Errorf("namespace %s: %w: one Baseline may admit them, of one provider", namespace, ErrOtherProvider)
	}
	objects, err := interceptionObjects(a.opts, namespace)
	if err != nil {
		return err
	}
	a.tell("the controllers may put proxies in front of the Services of namespace %s", namespace)
	return a.applyAll(ctx, objects)
}

// interceptionObjects are the objects of a namespace whose Services may have proxies, in the order of applying.
func interceptionObjects(opts Options, namespace string) ([]*unstructured.Unstructured, error) {
	objects, err := read(manifests, "manifests/interception/*.yaml", map[string]string{
		"Prefix": opts.names.Prefix(), "System": opts.names.SystemNamespace(), "Namespace": namespace, "Provider": opts.provider,
	})
	if err != nil {
		return nil, err
	}
	for kind, name := range map[string]string{"interception": interceptionRole(opts.names), "proxy": intercept.Account} {
		roles, err := read(generated, "rbac/"+kind+"/*.yaml", nil)
		if err != nil {
			return nil, err
		}
		for _, object := range objects {
			if object.GetKind() == "Role" && object.GetName() == name {
				object.Object["rules"] = roles[0].Object["rules"]
			}
		}
	}
	return objects, nil
}

// interceptionRole is the name of the Role, and of its RoleBinding, by which the controllers of a provider put proxies.
func interceptionRole(names placement.Names) string { return names.Prefix() + "-interception" }

// withdrawProxies takes back the right to proxies where no Baseline admits them: it gives the Services their own pods, and deletes the
// proxies and what they were given.
func (a *applier) withdrawProxies(ctx context.Context, wanted map[string]*opened) error {
	namespaces, err := a.proxiedNamespaces(ctx)
	if err != nil {
		return err
	}
	for _, namespace := range namespaces {
		if wanted[namespace] != nil && wanted[namespace].proxies {
			continue
		}
		if err := a.withdrawProxiesIn(ctx, namespace); err != nil {
			return fmt.Errorf("taking back the right to proxies in namespace %s: %w", namespace, err)
		}
	}
	return nil
}

// proxiedNamespaces are those in which the controllers of this provider have the right to proxies, or had it and something is left.
//
// The attack: a thief of their credential takes away what the namespaces are found by, and keeps the right. So they are found by the
// RoleBinding that gives it, and the Role, which goes last: the controllers can write neither.
func (a *applier) proxiedNamespaces(ctx context.Context) ([]string, error) {
	var namespaces []string
	for _, kind := range []string{"RoleBinding", "Role"} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(rbacv1.SchemeGroupVersion.WithKind(kind + "List"))
		if err := a.client.List(ctx, list, client.MatchingLabels{placement.LabelManagedBy: placement.ManagedBy}); err != nil {
			return nil, fmt.Errorf("listing where proxies were granted: %w", err)
		}
		for i := range list.Items {
			if list.Items[i].GetName() == interceptionRole(a.opts.names) {
				namespaces = append(namespaces, list.Items[i].GetNamespace())
			}
		}
	}
	slices.Sort(namespaces)
	return slices.Compact(namespaces), nil
}

func (a *applier) withdrawProxiesIn(ctx context.Context, namespace string) error {
	// The right goes first: controllers that still have it would put the proxies back.
	err := a.remove(ctx, rbacv1.SchemeGroupVersion, "RoleBinding", namespace, interceptionRole(a.opts.names))
	if err == nil {
		err = a.restoreServices(ctx, namespace)
	}
	if err != nil {
		return err
	}
	if err := a.removeProxies(ctx, namespace); err != nil {
		return err
	}
	err = errors.Join(
		a.remove(ctx, rbacv1.SchemeGroupVersion, "RoleBinding", namespace, intercept.Account),
		a.remove(ctx, rbacv1.SchemeGroupVersion, "Role", namespace, intercept.Account),
		a.remove(ctx, corev1.SchemeGroupVersion, "ServiceAccount", namespace, intercept.Account),
		a.remove(ctx, corev1.SchemeGroupVersion, "ConfigMap", namespace, wire.ConfigMap),
		a.remove(ctx, corev1.SchemeGroupVersion, "ConfigMap", namespace, intercept.RoutesConfigMap),
	)
	if err != nil {
		return err
	}
	// The last: by it the next run finds what this one has left.
	return a.remove(ctx, rbacv1.SchemeGroupVersion, "Role", namespace, interceptionRole(a.opts.names))
}

// removeProxies deletes all that stands for intercepted Services of a namespace.
func (a *applier) removeProxies(ctx context.Context, namespace string) error {
	err := a.removeOurs(ctx, namespace, appsv1.SchemeGroupVersion.WithKind("Deployment"), policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"))
	if err == nil {
		err = a.awaitProxiesGone(ctx, namespace)
	}
	if err != nil {
		return err
	}
	return a.removeOurs(ctx, namespace, corev1.SchemeGroupVersion.WithKind("Service"))
}

// awaitProxiesGone waits until no proxy of a namespace runs: each ends what it has begun, and needs the Service behind it for that.
func (a *applier) awaitProxiesGone(ctx context.Context, namespace string) error {
	if a.opts.DryRun {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, a.opts.Timeout, fmt.Errorf("not within %s", a.opts.Timeout))
	defer cancel()
	ours := []client.ListOption{client.InNamespace(namespace), client.MatchingLabels{
		placement.LabelManagedBy: placement.ManagedBy, "app.kubernetes.io/name": intercept.Account,
	}}
	for {
		list := &corev1.PodList{}
		if err := a.client.List(ctx, list, ours...); err != nil {
			return fmt.Errorf("listing the proxies: %w", cause(ctx, err))
		}
		if len(list.Items) == 0 {
			return nil
		}
		a.tell("waiting for %d proxies of namespace %s to end", len(list.Items), namespace)
		w, err := a.client.Watch(ctx, &corev1.PodList{}, append(ours, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}})...)
		if err != nil {
			return fmt.Errorf("watching the proxies: %w", cause(ctx, err))
		}
		awaitDeletion(ctx, w)
		w.Stop()
		if ctx.Err() != nil {
			return fmt.Errorf("%d proxies still run, such as pod %s: run it again once they have ended: %w", len(list.Items), list.Items[0].Name, context.Cause(ctx))
		}
	}
}

// awaitDeletion returns when an object of a watch is deleted, or when the watch or the context ends.
func awaitDeletion(ctx context.Context, w watch.Interface) {
	for {
		select {
		case <-ctx.Done():
			return
		case event, ok := <-w.ResultChan():
			if !ok || event.Type == watch.Deleted {
				return
			}
		}
	}
}

// removeOurs deletes what stands for intercepted Services of a namespace, of some kinds.
func (a *applier) removeOurs(ctx context.Context, namespace string, kinds ...schema.GroupVersionKind) error {
	for _, of := range kinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(of.GroupVersion().WithKind(of.Kind + "List"))
		if err := a.client.List(ctx, list, client.InNamespace(namespace), client.HasLabels{intercept.LabelService}); err != nil {
			return fmt.Errorf("listing what proxies had: %w", err)
		}
		for i := range list.Items {
			if !intercept.IsOurs(list.Items[i].GetLabels()) {
				continue
			}
			if err := a.remove(ctx, of.GroupVersion(), of.Kind, namespace, list.Items[i].GetName()); err != nil {
				return err
			}
		}
	}
	return nil
}

// remove deletes an object that may be gone.
func (a *applier) remove(ctx context.Context, version schema.GroupVersion, kind, namespace, name string) error {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(version.WithKind(kind))
	object.SetNamespace(namespace)
	object.SetName(name)
	err := a.client.Get(ctx, client.ObjectKeyFromObject(object), object)
	if notThere(err) {
		return nil
	}
	if err == nil && !a.opts.DryRun {
		err = client.IgnoreNotFound(a.client.Delete(ctx, object))
	}
	if err != nil {
		return fmt.Errorf("deleting %s %s/%s: %w", kind, namespace, name, err)
	}
	a.report.add(a.where, kind, qualified(object), Deleted)
	return nil
}
