// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package route makes of a SandboxRoute what a Gateway of the Gateway API reads, and says what stands in its way.
//
// In: the spec of a SandboxRoute, the Services that its backends stand for, the ID of the sandbox, what a Baseline admits,
// and the HTTPRoutes of others. Out: HTTPRoutes for the placement of the group, ReferenceGrants for the namespaces of the
// Baseline, which rules other routes shadow, and where requests begin. An error that another spec or Baseline would not have
// is a *RefusedError, whose reason is that of the condition Attached; its message names the field and the remedy. Any other
// error is a mistake of the caller.
//
// The package is pure: it reads neither a clock nor a server, and equal input has equal output.
//
//	selector.go    what each match has, and which header may carry the ID
//	check.go       what no Baseline would make right: bounds, names, backends
//	checkmatch.go  of a match: paths, methods, headers, parameters
//	admit.go       which Gateways and hostnames a Baseline admits
//	httproutes.go  the HTTPRoutes
//	split.go       how many of them, and their names
//	grants.go      the ReferenceGrants
//	shadow.go      which rules other routes shadow
//	precedence.go  which of two matches comes first, and what to do
//	overlap.go     whether a request can meet both
//	hostnames.go   which hostnames another one covers
//	endpoints.go   where requests begin
//	wire.go        what of the Gateway API is written and read
//
// Package conformance, below, has the requests by which providers are tested.
//
// One rule carries the rest (docs/adr/0059-routes.md): each match of each rule has the selector, so that a tenant's route
// takes requests of those alone who ask for it.
package route
