// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package runtimecluster opens the runtime cluster for the controllers: one client and one
// cache that sees only what Sandbar made. It decides what is cached and nothing else; who may
// do what on the runtime cluster is decided by the credential in the given configuration.
package runtimecluster

import (
	"fmt"
	"slices"

	krov1alpha1 "github.com/kubernetes-sigs/kro/api/v1alpha1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// Cluster is the runtime cluster of one provider.
type Cluster struct {
	cluster.Cluster

	// Names are those of what the provider has there for itself.
	Names placement.Names
}

// kroOwnedLabel marks the CRDs that kro made from a ResourceGraphDefinition.
const kroOwnedLabel = "kro.run/owned"

// New opens the runtime cluster for the provider with some names. Add the result to a manager, which starts its
// cache.
//
// The cache holds, without managed fields and with one copy of what is the same everywhere
// (keeper):
//   - objects of every kind that carry the label of an instance (placement.LabelInstanceUID),
//   - of the Secrets among them those with the control token,
//   - of the pods in placements what a status is made of (keepOfPod),
//   - all ResourceGraphDefinitions,
//   - the CRDs that kro made,
//   - the ConfigMaps in the provider's own namespace that it made, sandbar-platform above all, the Lease
//     sandbar-serving and the Secret sandbar-control-keys there.
//
// Placements, graphs and CRDs of another provider on the cluster are among them: package placement tells whose
// one is.
//
// Whatever else the cluster holds is invisible to the client's reads: use the API reader for a
// live answer. Unstructured objects are read from the cache like typed ones. There is no
// client-side rate limit: the API server's own fairness is the limit.
func New(cfg *rest.Config, names placement.Names) (*Cluster, error) {
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	options, err := cacheOptions(names)
	if err != nil {
		return nil, err
	}
	cfg = rest.CopyConfig(cfg)
	cfg.QPS, cfg.Burst = -1, 0
	c, err := cluster.New(cfg, func(o *cluster.Options) {
		o.Scheme = scheme
		o.Cache = options
		o.Client = client.Options{Cache: &client.CacheOptions{Unstructured: true}}
	})
	if err != nil {
		return nil, fmt.Errorf("opening the runtime cluster: %w", err)
	}
	return &Cluster{Cluster: c, Names: names}, nil
}

func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme,
		apiextensionsv1.AddToScheme,
		krov1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("building the runtime cluster's scheme: %w", err)
		}
	}
	return scheme, nil
}

func cacheOptions(names placement.Names) (cache.Options, error) {
	ofAnInstance, err := labels.NewRequirement(placement.LabelInstanceUID, selection.Exists, nil)
	if err != nil {
		return cache.Options{}, fmt.Errorf("building the selector of placements: %w", err)
	}
	instances := labels.NewSelector().Add(*ofAnInstance)
	return cache.Options{
		DefaultLabelSelector: instances,
		DefaultTransform:     keeper(),
		ByObject: map[client.Object]cache.ByObject{
			// Their labels are a graph's; their namespace tells whose they are.
			&corev1.Pod{}:                          {Label: labels.Everything(), Transform: keepOfPod},
			&krov1alpha1.ResourceGraphDefinition{}: {Label: labels.Everything()},
			&apiextensionsv1.CustomResourceDefinition{}: {
				Label: labels.SelectorFromSet(labels.Set{kroOwnedLabel: "true"}),
			},
			&coordinationv1.Lease{}: {
				Namespaces: map[string]cache.Config{
					cache.AllNamespaces: {LabelSelector: instances},
					names.SystemNamespace(): {
						LabelSelector: labels.Everything(),
						FieldSelector: fields.OneTermEqualSelector("metadata.name", placement.DataPlaneLease),
					},
				},
			},
			// RBAC knows no labels: by name, so that the controllers need not be able to read every
			// Secret of the cluster.
			&corev1.Secret{}: {
				Namespaces: map[string]cache.Config{
					cache.AllNamespaces: {
						LabelSelector: instances,
						FieldSelector: fields.OneTermEqualSelector("metadata.name", placement.ControlSecret),
					},
					names.SystemNamespace(): {
						LabelSelector: labels.Everything(),
						FieldSelector: fields.OneTermEqualSelector("metadata.name", placement.ControlKeysSecret),
					},
				},
			},
			&corev1.ConfigMap{}: {
				Label: labels.SelectorFromSet(labels.Set{placement.LabelManagedBy: placement.ManagedBy}),
				Namespaces: map[string]cache.Config{
					names.SystemNamespace(): {},
				},
			},
		},
	}, nil
}

// keepOfPod drops what nobody reads of a pod, which is most of it: the cache holds every pod. Of
// a pod outside of placements it keeps the name.
func keepOfPod(obj any) (any, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	kept := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
	}}
	if !placement.IsNamespace(pod.Namespace) {
		return kept, nil
	}
	kept.CreationTimestamp, kept.DeletionTimestamp = pod.CreationTimestamp, pod.DeletionTimestamp
	kept.OwnerReferences = pod.OwnerReferences
	for _, name := range keptLabels {
		if value, ok := pod.Labels[name]; ok {
			if kept.Labels == nil {
				kept.Labels = map[string]string{}
			}
			kept.Labels[name] = value
		}
	}
	for _, container := range pod.Spec.Containers {
		if container.ReadinessProbe != nil {
			kept.Spec.Containers = append(kept.Spec.Containers, corev1.Container{Name: container.Name, ReadinessProbe: aProbe})
		}
	}
	kept.Status = corev1.PodStatus{
		Phase: pod.Status.Phase, Reason: pod.Status.Reason, Message: pod.Status.Message, StartTime: pod.Status.StartTime,
		ObservedGeneration:    pod.Status.ObservedGeneration,
		InitContainerStatuses: keepOfContainers(pod.Status.InitContainerStatuses),
		ContainerStatuses:     keepOfContainers(pod.Status.ContainerStatuses),
	}
	for _, condition := range pod.Status.Conditions {
		if slices.Contains(keptConditions, condition.Type) {
			kept.Status.Conditions = append(kept.Status.Conditions, condition)
		}
	}
	return kept, nil
}

// keptLabels say which component a pod is of, or of which one and which DevSession.
var keptLabels = []string{placement.LabelComponent, placement.LabelDevelops, placement.LabelSessionUID}

// keptConditions say how a pod has started, whether it serves, goes on doing so, and how far its resize is.
var keptConditions = []corev1.PodConditionType{
	corev1.PodReady, corev1.PodScheduled, corev1.PodReadyToStartContainers, corev1.PodInitialized,
	corev1.DisruptionTarget, corev1.PodResizePending, corev1.PodResizeInProgress,
}

// aProbe stands for any readiness probe: that there is one is all that is kept of it.
var aProbe = &corev1.Probe{}

func keepOfContainers(all []corev1.ContainerStatus) []corev1.ContainerStatus {
	kept := make([]corev1.ContainerStatus, len(all))
	for i, status := range all {
		kept[i] = corev1.ContainerStatus{
			Name: status.Name, Image: status.Image, Ready: status.Ready, RestartCount: status.RestartCount,
			State: status.State, LastTerminationState: status.LastTerminationState,
		}
	}
	return kept
}
