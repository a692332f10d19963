// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package instance turns tenants' objects into placements on the runtime cluster and tells
// their tenants what has become of them.
//
// For each Template that is exported it runs one controller (kinds.go, runner.go). The
// controller follows the kind through the virtual workspaces of the APIExport (pkg/export). A
// reconcile (reconciler.go) is a short path, and converge is its table of contents:
//
//	get → deleting? finalize.go : admit → protect → place.go → look → schedule.go → compose → observe (pods.go) → report
//
// Each phase returns its result, and converge hands it to the phases that need it. What all of them are
// given, and none changes, is package scope. Package lifecycle decides whether an instance runs, package
// outcome what a tenant is told, and package place builds what a placement is made of; these three are pure.
// What no tenant's object stands for any more is removed by abandoned.go as soon as it is noticed and by
// package sweep at the latest.
//
// The package makes no schemas and no kro graphs (package template) and serves no requests
// (package dataplane). It never reads a tenant's status to decide anything.
package instance
