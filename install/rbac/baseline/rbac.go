// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package baseline states the rights of sandbar-provider controllers in a namespace of a Baseline: it reads which
// workloads and Services there are (providers/infrastructure/baseline/namespace.go). install/references.go adds the
// ConfigMaps, Secrets and volumes of which the Baseline says that tenants get copies.
// It has markers and no code; make generate makes the rules of Role sandbar-baseline of them. The namespace baseline
// stands for each of those in which sandbar-provider baseline grant applies the Role.
package baseline

// +kubebuilder:rbac:groups=core,resources=services,verbs=get;list;watch,namespace=baseline
// +kubebuilder:rbac:groups=apps,resources=deployments;statefulsets,verbs=get;list;watch,namespace=baseline
// +kubebuilder:rbac:groups=argoproj.io,resources=rollouts,verbs=get;list;watch,namespace=baseline
