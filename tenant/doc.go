// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package tenant acts as a caller inside a tenant's workspace. It asks kcp two questions with
// the caller's own credential: what an object is (Get) and what the caller may do (Review).
//
// It holds one connection pool for all callers and no credential of its own: what the kcp
// configuration carries is stripped, so that a bug here can never lend a caller the provider's
// rights. It decides nothing and caches nothing; package dataplane does both.
package tenant
