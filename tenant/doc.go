// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package tenant acts for a caller inside a tenant's workspace. It asks kcp what an object is
// (Get, List, Watch), what the caller may do (Review) and who they are (WhoAmI). It writes one thing for
// all of them: an annotation on an object (Annotate). With a caller's own token it also merges a patch into an object
// (Patch), and creates one (Create).
//
// Callers with a token are asked for with it, over one connection pool that has no credential
// of its own: what the kcp configuration carries is stripped, so that a bug here can never lend a
// caller the provider's rights. Callers who are known by a verified name have no credential; for
// them kcp is asked by way of the APIExport's virtual workspace (VirtualWorkspace), with the
// provider's. What the provider may see is then never the answer: an object counts together with
// kcp's word that the subject may get it, and not otherwise.
//
// The package decides nothing and caches no answer; package dataplane does both.
package tenant
