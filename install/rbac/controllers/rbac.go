// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package controllers states the rights of sandbar-provider controllers on the runtime cluster,
// where it makes placements. It has markers and no code; make generate makes the rules of
// ClusterRole and Role sandbar-controllers of them.
package controllers

// A placement is a namespace (instance/namespace.go, instance/finalize.go). RBAC knows no name
// prefixes, so this reaches all namespaces.
// +kubebuilder:rbac:groups=core,resources=namespaces,verbs=get;list;watch;create;update;patch;delete

// The control token of each placement, and its password (ensureSecret in instance/place.go). RBAC cannot restrict
// by label either: this identity can read every Secret of the cluster, which is why a runtime
// cluster belongs to one provider.
// +kubebuilder:rbac:groups=core,resources=secrets,verbs=get;list;watch;create;update;patch

// The bounds of each placement (instance/quota.go, instance/isolation.go).
// +kubebuilder:rbac:groups=core,resources=resourcequotas;limitranges,verbs=get;list;watch;create;update;patch
// +kubebuilder:rbac:groups=networking.k8s.io,resources=networkpolicies,verbs=get;list;watch;create;update;patch

// The kro instances of all kinds that Templates define (instance/compose.go). Kinds come and go
// with Templates, so none is named.
// +kubebuilder:rbac:groups=sandbar.dev,resources=*,verbs=get;list;watch;create;update;patch;delete

// When each placement was last used, and since when the data plane serves (instance/use.go).
// Creating, listing and watching know no names.
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=list;watch;create
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,resourceNames=sandbar-activity;sandbar-dataplane,verbs=get
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,resourceNames=sandbar-activity,verbs=patch

// What the status of an instance tells: how its pods are (instance/pods.go), why one cannot be
// made, which only events say (instance/warnings.go), and whether a suspension keeps volumes.
// +kubebuilder:rbac:groups=core,resources=pods,verbs=get;list;watch
// +kubebuilder:rbac:groups=core,resources=events;persistentvolumeclaims,verbs=list

// A Template's graph, and the CRD that kro makes of it (template/graph.go, template/retire.go).
// +kubebuilder:rbac:groups=kro.run,resources=resourcegraphdefinitions,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get;list;watch

// The platform's values for graphs (platform/controller.go). A creation has no name to restrict.
// +kubebuilder:rbac:groups=core,resources=configmaps,verbs=create,namespace=sandbar-system
// +kubebuilder:rbac:groups=core,resources=configmaps,resourceNames=sandbar-platform,verbs=get;list;watch;update;patch,namespace=sandbar-system

// Tried in a dry run and never made (instance/podtemplate.go); RBAC has one verb for both. It
// adds nothing to what a graph may contain, which is any workload.
// +kubebuilder:rbac:groups=core,resources=pods,verbs=create
// +kubebuilder:rbac:groups=node.k8s.io,resources=runtimeclasses,verbs=get
