// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package serve states the rights of sandbar-provider serve on the runtime cluster: it reads
// placements and reaches their pods. It can change nothing but Leases, which decide no more than what
// counts as unused. It has markers and no code; make generate makes
// the rules of ClusterRole and Role sandbar-serve of them.
package serve

// Where an instance is, and where its verbs lead (dataplane/locate/runtime.go, dataplane/locate/resolve.go).
// +kubebuilder:rbac:groups=core,resources=namespaces;services;pods,verbs=get;list;watch
// +kubebuilder:rbac:groups=discovery.k8s.io,resources=endpointslices,verbs=get;list;watch

// The kro instances, from whose status verbs are resolved (dataplane/locate/kinds.go).
// +kubebuilder:rbac:groups=sandbar.dev,resources=*,verbs=get;list;watch

// Control tokens (dataplane/locate/runtime.go) and the keys of preview links (dataplane/preview_keys.go).
// A list or watch whose field selector has the name is one of that name, so that no other Secret
// of the cluster can be read.
// +kubebuilder:rbac:groups=core,resources=secrets,resourceNames=sandbar-control,verbs=get;list;watch
// Passwords are read one by one, for callers whom kcp lets have them (dataplane/password.go).
// +kubebuilder:rbac:groups=core,resources=secrets,resourceNames=sandbar-password,verbs=get
// So are the logs that were kept of suspended instances (dataplane/keptlog.go).
// +kubebuilder:rbac:groups=core,resources=secrets,resourceNames=sandbar-log,verbs=get
// +kubebuilder:rbac:groups=core,resources=secrets,resourceNames=sandbar-preview-keys,verbs=get;list;watch,namespace=sandbar-system

// Verbs with a podRef (dataplane/upstream/pod.go). A WebSocket begins with a GET, for which older API servers
// ask for get and newer ones for create. RBAC cannot restrict by label: the admission policy
// sandbar-serve (install/manifests/runtime/50-admission.yaml) keeps connections to the pods of
// placements. A log is no connection, so this identity can read those of every pod.
// +kubebuilder:rbac:groups=core,resources=pods/log,verbs=get
// +kubebuilder:rbac:groups=core,resources=pods/exec;pods/attach;pods/portforward,verbs=get;create

// The way through the API server, where pods cannot be reached directly (dataplane/upstream/podproxy.go).
// The verb of a proxied request is that of its method. The admission policy holds here as well.
// +kubebuilder:rbac:groups=core,resources=pods/proxy,verbs=get;create;update;patch;delete

// When instances were used last (dataplane/lifecycle/activity.go), by name: nobody else's Lease.
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,resourceNames=sandbar-activity,verbs=get;list;watch;patch

// That the data plane serves (dataplane/heartbeat.go), and that this replica of it does
// (dataplane/registration.go). Each replica's Lease has a name of its own, which RBAC cannot know; in
// this namespace there are no Leases but the data plane's, and the admission policy knows prefixes.
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=get;list;watch;create;update;patch;delete,namespace=sandbar-system

// Its own token is renewed with the token (pkg/credential). The admission policy bounds how long
// a new one lasts.
// +kubebuilder:rbac:groups=core,resources=serviceaccounts/token,resourceNames=sandbar-serve,verbs=create,namespace=sandbar-system
