// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package bind states what every user of a kcp may do with the APIExport. It has markers and no
// code; make generate makes the rules of ClusterRole sandbar-bind, in the provider workspace, of
// them.
package bind

// Binding is self-service; what a bound workspace may do is the business of the maximal
// permission policy. install replaces the placeholder by the name of the export.
// +kubebuilder:rbac:groups=apis.kcp.io,resources=apiexports,resourceNames="{{ .Export }}",verbs=bind
