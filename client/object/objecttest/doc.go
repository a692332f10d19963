// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package objecttest has a workspace for tests: an HTTP server that speaks as much of the Kubernetes API as
// package object and the command line use, with versions, selectors, pages, tables, watches, dry runs and
// preconditions. It keeps objects in memory and checks no schemas. Tests can make it forget its history, cut its
// watches and refuse requests, which a real API server does only under load.
package objecttest
