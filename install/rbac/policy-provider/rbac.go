// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package policyprovider states the most that the provider may do with the instances in bound
// workspaces: its part of the APIExport's maximal permission policy. It has markers and no code;
// make generate makes the rules of ClusterRole sandbar-policy-provider, in the provider
// workspace, of them. The tenants' part has no markers: the template controller writes it as
// Templates come and go.
package policyprovider

// The provider itself writes status and finalizers, which no tenant may
// (providers/infrastructure/instance). Kinds come and go with Templates, so none is named.
// +kubebuilder:rbac:groups=sandbar.dev,resources=*,verbs=*
