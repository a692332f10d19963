// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package lifecycle decides from a tenant's terms, the last use and the time whether an instance runs,
// rests or ends. It is pure: it reads nothing and keeps nothing, and its tests are a table.
package lifecycle
