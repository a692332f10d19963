// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

// deployment is a copy of the sandbox's Deployment in a namespace of its own, with copies of the
// volume claims and Secrets that it uses, and nothing of Sandbar's or kro's behind it.
type deployment struct {
	kube      kubernetes.Interface
	namespace string
	name      string
}

func copyDeployment(ctx context.Context, b *sandbox) (*deployment, error) {
	found, err := b.kube.AppsV1().Deployments(b.namespace).List(ctx, metav1.ListOptions{})
	if err != nil || len(found.Items) != 1 {
		return nil, fmt.Errorf("finding the sandbox's Deployment: %d there: %w", len(found.Items), err)
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "bench-lifecycle-"}}
	if ns, err = b.kube.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("making a namespace: %w", err)
	}
	d := &deployment{kube: b.kube, namespace: ns.Name, name: found.Items[0].Name}
	if err := d.fill(ctx, b.namespace, &found.Items[0]); err != nil {
		d.remove()
		return nil, err
	}
	return d, nil
}

func (d *deployment) fill(ctx context.Context, from string, original *appsv1.Deployment) error {
	secrets, err := d.kube.CoreV1().Secrets(from).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("reading the Secrets: %w", err)
	}
	for _, s := range secrets.Items {
		same := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: s.Name}, Type: s.Type, Data: s.Data}
		if _, err := d.kube.CoreV1().Secrets(d.namespace).Create(ctx, same, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("copying a Secret: %w", err)
		}
	}
	claims, err := d.kube.CoreV1().PersistentVolumeClaims(from).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("reading the claims: %w", err)
	}
	for _, c := range claims.Items {
		same := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: c.Name}, Spec: c.Spec}
		same.Spec.VolumeName = ""
		if _, err := d.kube.CoreV1().PersistentVolumeClaims(d.namespace).Create(ctx, same, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("copying a claim: %w", err)
		}
	}
	same := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: d.name}, Spec: *original.Spec.DeepCopy()}
	_, err = d.scale(ctx, func(ctx context.Context) error {
		_, err := d.kube.AppsV1().Deployments(d.namespace).Create(ctx, same, metav1.CreateOptions{})
		return err
	})
	return err
}

// remove deletes the copy, also after the run was interrupted.
func (d *deployment) remove() {
	_ = d.kube.CoreV1().Namespaces().Delete(context.Background(), d.namespace, metav1.DeleteOptions{})
}

// cycle scales to none and back to one, and returns how long it took to have no pods and to be
// available again.
func (d *deployment) cycle(ctx context.Context) (none, one time.Duration, err error) {
	to := func(replicas int) func(context.Context) error {
		return func(ctx context.Context) error {
			patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
			_, err := d.kube.AppsV1().Deployments(d.namespace).Patch(ctx, d.name, types.MergePatchType, patch, metav1.PatchOptions{})
			return err
		}
	}
	if none, err = untilNoPods(ctx, d.kube, d.namespace, to(0)); err != nil {
		return 0, 0, fmt.Errorf("scaling to none: %w", err)
	}
	one, err = d.scale(ctx, to(1))
	return none, one, err
}

// scale returns how long a change takes to have made one replica available.
func (d *deployment) scale(ctx context.Context, change func(context.Context) error) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, oneTimeout)
	defer cancel()
	events, err := d.kube.AppsV1().Deployments(d.namespace).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, fmt.Errorf("watching the Deployment: %w", err)
	}
	defer events.Stop()
	start := time.Now()
	if err := change(ctx); err != nil {
		return 0, fmt.Errorf("scaling to one: %w", err)
	}
	if err := until(ctx, events, func(e watch.Event) bool {
		d, ok := e.Object.(*appsv1.Deployment)
		return ok && d.Status.ObservedGeneration == d.Generation && d.Status.AvailableReplicas == 1
	}); err != nil {
		return 0, fmt.Errorf("scaling to one: %w", err)
	}
	return time.Since(start), nil
}

// untilNoPods returns how long a change takes to have ended all pods of a namespace.
func untilNoPods(ctx context.Context, kube kubernetes.Interface, namespace string, change func(context.Context) error) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, oneTimeout)
	defer cancel()
	pods, err := kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, fmt.Errorf("listing the pods: %w", err)
	}
	events, err := kube.CoreV1().Pods(namespace).Watch(ctx, metav1.ListOptions{ResourceVersion: pods.ResourceVersion})
	if err != nil {
		return 0, fmt.Errorf("watching the pods: %w", err)
	}
	defer events.Stop()
	there := map[types.UID]bool{}
	for _, pod := range pods.Items {
		there[pod.UID] = true
	}
	start := time.Now()
	if err := change(ctx); err != nil {
		return 0, err
	}
	err = until(ctx, events, func(e watch.Event) bool {
		if pod, ok := e.Object.(*corev1.Pod); ok {
			there[pod.UID] = e.Type != watch.Deleted
			if e.Type == watch.Deleted {
				delete(there, pod.UID)
			}
		}
		return len(there) == 0
	})
	return time.Since(start), err
}
