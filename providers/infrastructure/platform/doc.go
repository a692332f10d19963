// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package platform publishes what the operator set for the whole provider: the object
// InfrastructureProvider becomes the ConfigMap sandbar-platform, from which graphs read, and
// annotations on the APIExport, from which clients learn where the data plane is. It also tells
// in the object's status whether the runtime cluster answers and which kro serves it.
//
// It decides nothing about single instances; quota and isolation are read by package instance.
package platform
