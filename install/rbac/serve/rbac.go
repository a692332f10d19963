// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package serve states the rights of sandbar-provider serve on the runtime cluster: it reads
// placements and reaches their pods. It can change nothing but the times in two kinds of Lease,
// which decide no more than what counts as unused. It has markers and no code; make generate makes
// the rules of ClusterRole and Role sandbar-serve of them.
package serve

// Where an instance is, and where its verbs lead (dataplane/runtime.go, dataplane/resolve.go).
// +kubebuilder:rbac:groups=core,resources=namespaces;services;pods,verbs=get;list;watch
// +kubebuilder:rbac:groups=discovery.k8s.io,resources=endpointslices,verbs=get;list;watch

// The kro instances, from whose status verbs are resolved (dataplane/kinds.go).
// +kubebuilder:rbac:groups=sandbar.dev,resources=*,verbs=get;list;watch

// Control tokens (dataplane/runtime.go). The data plane lists only what is labelled as a
// placement's, but RBAC cannot restrict by label: this identity can read every Secret of the
// cluster.
// +kubebuilder:rbac:groups=core,resources=secrets,verbs=get;list;watch

// Verbs with a podRef (dataplane/pod.go). A WebSocket begins with a GET, for which older API servers
// ask for get and newer ones for create. RBAC cannot restrict by label: this identity can run
// commands in every pod of the cluster.
// +kubebuilder:rbac:groups=core,resources=pods/log,verbs=get
// +kubebuilder:rbac:groups=core,resources=pods/exec;pods/attach;pods/portforward,verbs=get;create

// The way through the API server, where pods cannot be reached directly (dataplane/apiserver.go).
// The verb of a proxied request is that of its method.
// +kubebuilder:rbac:groups=core,resources=services/proxy;pods/proxy,verbs=get;create;update;patch;delete

// When instances were used last (dataplane/activity.go), by name: nobody else's Lease.
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,resourceNames=sandbar-activity,verbs=get;list;watch;patch

// That the data plane serves (dataplane/heartbeat.go). A creation has no name to restrict.
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=create,namespace=sandbar-system
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,resourceNames=sandbar-dataplane,verbs=get;patch,namespace=sandbar-system
