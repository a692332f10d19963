// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package providerserve states the rights of sandbar-provider serve in the provider workspace. It
// is the process that everybody can reach, so it can change nothing in the workspace itself. The
// package has markers and no code; make generate makes the rules of ClusterRole and Role
// sandbar-provider-serve of them.
package providerserve

// The routes (dataplane/locate/kinds.go), the limits (dataplane/settings.go) and the catalogue of Baselines
// (dataplane/baselines.go).
// +kubebuilder:rbac:groups=sandbar.dev,resources=templates;infrastructureproviders;baselines,verbs=get;list;watch

// On which shards the export's virtual workspace is (tenant/virtual.go). A list cannot be
// restricted by name.
// +kubebuilder:rbac:groups=apis.kcp.io,resources=apiexportendpointslices,verbs=get;list;watch

// In bound workspaces, through the virtual workspace: bindings are followed (pkg/export/bindings.go),
// kcp is asked what callers of a front proxy may do, which is a creation, and for them an
// instance is read (tenant/subject.go) or gets an annotation (tenant/annotate.go). It can replace
// and delete nothing. kcp asks for the verb and not for the resource. install replaces the
// placeholder by the name of the export.
// +kubebuilder:rbac:groups=apis.kcp.io,resources=apiexports/content,resourceNames="{{ .Export }}",verbs=get;list;watch;create;patch

// Its own token is renewed with the token (pkg/credential).
// +kubebuilder:rbac:groups=core,resources=serviceaccounts/token,resourceNames=sandbar-provider-serve,verbs=create,namespace=sandbar-system
