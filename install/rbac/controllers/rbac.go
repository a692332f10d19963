// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package controllers states the rights of sandbar-provider controllers on the runtime cluster,
// where it makes placements. It has markers and no code; make generate makes the rules of
// ClusterRole and Role sandbar-controllers of them.
package controllers

// A placement is a namespace, which is made (providers/infrastructure/instance/place.go) and deleted
// (providers/infrastructure/instance/finalize.go). RBAC knows no name prefixes, so this and what follows reach all
// namespaces; the admission policy sandbar-controllers (install/manifests/runtime/50-admission.yaml) keeps writes to
// placements.
// +kubebuilder:rbac:groups=core,resources=namespaces,verbs=get;list;watch;create;update;patch;delete

// The control token of each placement (providers/infrastructure/control/secret.go), and its password (ensureSecret in
// providers/infrastructure/instance/place.go). A list or watch whose field selector has the name is one of that name, so
// that no other Secret of the cluster can be read. A creation has no name to restrict; the admission policy has.
// +kubebuilder:rbac:groups=core,resources=secrets,resourceNames=sandbar-control,verbs=get;list;watch;update;patch
// +kubebuilder:rbac:groups=core,resources=secrets,resourceNames=sandbar-password,verbs=get;update;patch
// +kubebuilder:rbac:groups=core,resources=secrets,verbs=create
// The end of the log of an instance that is suspended (providers/infrastructure/instance/keeplog.go), written and not read.
// +kubebuilder:rbac:groups=core,resources=secrets,resourceNames=sandbar-log,verbs=patch

// The variables of an instance's own (providers/infrastructure/instance/binding.go), created once, and read again to give them
// to a pod that runs.
// +kubebuilder:rbac:groups=core,resources=secrets,resourceNames=sandbar-binding,verbs=get

// What was frozen of the workloads that a placement has copies of (providers/infrastructure/frozen), and copies of what those
// refer to (providers/infrastructure/workload/copy.go), created once and never read. The Role of a Baseline lets the originals be
// read.
// +kubebuilder:rbac:groups=core,resources=configmaps,resourceNames=sandbar-snapshots,verbs=get;update
// +kubebuilder:rbac:groups=core,resources=configmaps,verbs=create

// The keys that control tokens are derived from (providers/infrastructure/control/rotate.go).
// +kubebuilder:rbac:groups=core,resources=secrets,resourceNames=sandbar-control-keys,verbs=get;list;watch,namespace=sandbar-system

// The bounds of each placement (providers/infrastructure/instance/place/quota.go and isolation.go in the same package),
// and the egress policy under which DNS is tried (providers/infrastructure/netcheck/dns.go).
// +kubebuilder:rbac:groups=core,resources=resourcequotas;limitranges,verbs=get;list;watch;create;update;patch
// +kubebuilder:rbac:groups=networking.k8s.io,resources=networkpolicies,verbs=get;list;watch;create;update;patch

// The routes that lead requests to copies (providers/infrastructure/sandboxroute), in placements; all other routes are read, to
// tell which of them take requests away from these, and the Gateways for whether they are there and their listeners.
// +kubebuilder:rbac:groups=gateway.networking.k8s.io,resources=httproutes,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=gateway.networking.k8s.io,resources=gateways,verbs=get

// What routes with provider proxy ask (providers/infrastructure/interception/store.go), in all namespaces of Baselines. Package
// interception has the right to change it.
// +kubebuilder:rbac:groups=core,resources=configmaps,resourceNames=sandbar-proxy-routes,verbs=get;list;watch

// The ports of the Services of copies (the same package), and what Services of Baselines are.
// +kubebuilder:rbac:groups=core,resources=services,verbs=get

// Whether requests to a copy have gone over to a DevSession, and back (providers/infrastructure/devsession/cluster.go). RBAC
// knows no labels; what an EndpointSlice says are addresses of pods, whose controllers' rights are wider already.
// +kubebuilder:rbac:groups=discovery.k8s.io,resources=endpointslices,verbs=list

// The kro instances of all kinds that Templates define (providers/infrastructure/instance/place/compose.go). Kinds come
// and go with Templates, so none is named.
// +kubebuilder:rbac:groups=sandbar.dev,resources=*,verbs=get;list;watch;create;update;patch;delete

// When each placement was last used (providers/infrastructure/instance/use.go). Creating, listing and watching know no
// names.
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=list;watch;create
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,resourceNames=sandbar-activity,verbs=get;patch

// Which replicas of the data plane serve, and since when (providers/infrastructure/serving/replicas.go): the start of
// unused time is moved while a clock is wrong, and the Lease of a replica that is gone is deleted.
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,resourceNames=sandbar-serving,verbs=get;patch,namespace=sandbar-system
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=delete,namespace=sandbar-system

// What the status of an instance tells: how its pods are (providers/infrastructure/instance/pods.go), why one cannot be
// made, which only events say (CauseInEvents in providers/infrastructure/instance/outcome), and whether a suspension keeps
// volumes, or one is being deleted (providers/infrastructure/instance/deletion.go).
// +kubebuilder:rbac:groups=core,resources=pods,verbs=get;list;watch
// +kubebuilder:rbac:groups=core,resources=events;persistentvolumeclaims,verbs=list

// The last words of a container that does not stay up (providers/infrastructure/instance/lastwords.go), and the end of
// the log of one that a suspension ends (providers/infrastructure/instance/keeplog.go).
// +kubebuilder:rbac:groups=core,resources=pods/log,verbs=get

// The pod of a member of a SandboxSet gets the resources of its template before a Sandbox takes it
// (providers/infrastructure/members/prepare.go). The subresource changes CPU and memory and nothing else; the admission
// policy keeps it to placements.
// +kubebuilder:rbac:groups=core,resources=pods/resize,verbs=patch

// A pod that runs gets variables through its runner (providers/infrastructure/latebinding). RBAC knows no paths; the admission
// policy leaves two of the runner's port, in placements.
// +kubebuilder:rbac:groups=core,resources=pods/proxy,verbs=get;create

// A Template's graph, and the CRD that kro makes of it (providers/infrastructure/template/graph.go, and retire.go in the
// same package).
// +kubebuilder:rbac:groups=kro.run,resources=resourcegraphdefinitions,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get;list;watch

// The platform's values for graphs (providers/infrastructure/platform/controller.go), and those of each revision that
// instances have (providers/infrastructure/template/present.go), which are created and deleted and never changed. Their
// names have hashes, which RBAC cannot describe; the admission policy can.
// +kubebuilder:rbac:groups=core,resources=configmaps,verbs=list;watch;create;delete,namespace=sandbar-system
// +kubebuilder:rbac:groups=core,resources=configmaps,resourceNames=sandbar-platform,verbs=get;update;patch,namespace=sandbar-system

// Its own token is renewed with the token (pkg/credential). The admission policy bounds how long
// a new one lasts.
// +kubebuilder:rbac:groups=core,resources=serviceaccounts/token,resourceNames=sandbar-controllers,verbs=create,namespace=sandbar-system

// Tried in a dry run and never made (providers/infrastructure/instance/try.go); RBAC has one verb for both, and the
// admission policy lets dry runs through only.
// +kubebuilder:rbac:groups=core,resources=pods,verbs=create
// +kubebuilder:rbac:groups=node.k8s.io,resources=runtimeclasses,verbs=get

// Whether network policies hold, and names resolve, is tried with pods (providers/infrastructure/netcheck/check.go), in a
// namespace of its own with a quota and the pod security level restricted.
// +kubebuilder:rbac:groups=core,resources=pods,verbs=create;delete;deletecollection,namespace=sandbar-netcheck
