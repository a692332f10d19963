// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package podtemplate makes the pod template of an instance out of what its tenant wrote. A
// tenant writes a pod template, or refers to a Template that offers one and patches it; what
// isolates a pod from the rest of the runtime cluster is the operator's in either case.
//
// The package is pure: no network and no clock. The template controller publishes Schema to
// tenants, the instance controller calls Build and gives the result to kro.
//
// +groupName=sandbar.dev
// +versionName=v1alpha1
package podtemplate
