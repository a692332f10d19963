// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package place builds what a placement is made of: its namespace, quota, limits, network policies, Secrets
// and Lease, and the kro instance with the tenant's pod. It is pure: it takes a Scope and values, returns
// objects and writes none of them, and its tests are tables and golden files.
//
// What isolates a placement from others is decided here: namespace.go (pod security level), isolation.go
// (network), quota.go (resources), compose.go (which metadata of a tenant reaches the runtime cluster) and
// imagechoice.go (which images a tenant may name).
package place
