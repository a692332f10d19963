// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package instance turns tenants' objects into placements on the runtime cluster and tells
// their tenants what has become of them.
//
// For each Template that is exported it runs one controller (kinds.go, runner.go). The
// controller follows the kind through the virtual workspace of the APIExport (endpoint.go,
// tenants.go) with one wildcard cache per shard: no goroutine, informer or client exists per
// workspace. A reconcile (reconciler.go) is a short path:
//
//	get → deleting? finalize.go : finalizer → place.go → compose.go → status.go
//
// What a placement consists of is built by pure functions (namespace.go, quota.go,
// isolation.go, token.go, compose.go). What no tenant's object stands for any more is removed
// by abandoned.go as soon as it is noticed and by sweep.go at the latest.
//
// The package makes no schemas and no kro graphs (package template) and serves no requests
// (package dataplane). It never reads a tenant's status to decide anything.
package instance
