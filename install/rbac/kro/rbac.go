// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package kro states what kro needs on the runtime cluster for the built-in Templates when it
// runs with rbac.mode=aggregation. It has markers and no code; make generate makes the rules of
// ClusterRole sandbar-kro of them.
package kro

// The instances whose graphs it composes.
// +kubebuilder:rbac:groups=sandbar.dev,resources=*,verbs=*

// What the built-in graphs are made of (templates/).
// +kubebuilder:rbac:groups=core,resources=services;persistentvolumeclaims,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=apps,resources=deployments;statefulsets,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=gateway.networking.k8s.io,resources=httproutes;referencegrants,verbs=get;list;watch;create;update;patch;delete

// The platform's values, to which the graphs refer.
// +kubebuilder:rbac:groups=core,resources=configmaps,verbs=get;list;watch
