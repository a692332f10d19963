// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package provider states the rights of sandbar-provider controllers in the provider workspace.
// It is no admin there. The package has markers and no code; make generate makes the rules of
// ClusterRole and Role sandbar-provider of them. Those of serve are in package providerserve.
package provider

// Templates are read and get a finalizer (providers/infrastructure/template/status.go); only operators make and delete
// them.
// +kubebuilder:rbac:groups=sandbar.dev,resources=templates,verbs=get;list;watch;update;patch

// Its configuration is the operator's to write (providers/infrastructure/platform/controller.go reads it, and
// providers/infrastructure/instance/kinds.go).
// +kubebuilder:rbac:groups=sandbar.dev,resources=infrastructureproviders,verbs=get;list;watch

// So are Baselines, of which the controllers write the status alone (providers/infrastructure/baseline/reconciler.go): one
// that could write the spec would show a namespace to a workspace of its choice.
// +kubebuilder:rbac:groups=sandbar.dev,resources=baselines,verbs=get;list;watch
// +kubebuilder:rbac:groups=sandbar.dev,resources=baselines/status,verbs=get;update;patch

// The status of Templates and of the InfrastructureProvider (providers/infrastructure/template/status.go, providers/infrastructure/platform/controller.go).
// +kubebuilder:rbac:groups=sandbar.dev,resources=templates/status;infrastructureproviders/status,verbs=get;update;patch

// Where the export offers what (providers/infrastructure/offer), and on which shards its virtual workspace
// is (pkg/export/endpoints.go). A list cannot be restricted by name.
// +kubebuilder:rbac:groups=apis.kcp.io,resources=apiexports;apiexportendpointslices,verbs=get;list;watch

// The export's resources and annotations follow the Templates (providers/infrastructure/offer) and the
// InfrastructureProvider (providers/infrastructure/platform/publish.go). install replaces the placeholder by its name.
// +kubebuilder:rbac:groups=apis.kcp.io,resources=apiexports,resourceNames="{{ .Export }}",verbs=update;patch

// Schemas are immutable: made and collected, never changed (providers/infrastructure/template/schema.go).
// +kubebuilder:rbac:groups=apis.kcp.io,resources=apiresourceschemas,verbs=get;list;watch;create;delete

// The instances in all bound workspaces, through the export's virtual workspace
// (pkg/export/objects.go). How far that goes, package policyprovider states.
// +kubebuilder:rbac:groups=apis.kcp.io,resources=apiexports/content,resourceNames="{{ .Export }}",verbs=*

// The one role whose rules it writes (package offer). Those are rights that it
// does not have itself, which takes escalate; the name keeps it to this role.
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles,resourceNames=sandbar-policy-tenants,verbs=get;list;watch;update;patch;escalate

// One of several replicas leads (cmd/sandbar-provider/controllers.go). The name of a Lease
// cannot restrict its creation.
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=get;list;watch;create;update;patch,namespace=sandbar-system

// A change of leader is told in an event, by client-go's leader election.
// +kubebuilder:rbac:groups=core;events.k8s.io,resources=events,verbs=create;patch,namespace=sandbar-system

// Its own token is renewed with the token (pkg/credential).
// +kubebuilder:rbac:groups=core,resources=serviceaccounts/token,resourceNames=sandbar-provider,verbs=create,namespace=sandbar-system
