// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 holds the types of Sandbar's API, group sandbar.dev, version v1alpha1.
//
// Template and InfrastructureProvider live in the provider workspace and belong to the
// operator. Instances (SandboxRunner and every other kind that a Template defines) live in
// tenant workspaces and have no Go type: their schema comes from the Template's graph.
// InstanceStatus is the part of their status that Sandbar adds to every kind.
//
// The package depends on Kubernetes' API machinery only, so that clients can import it.
//
// +kubebuilder:object:generate=true
// +groupName=sandbar.dev
package v1alpha1
