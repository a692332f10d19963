// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package spans starts spans of a request's trace where there is one, and costs nothing where there is
// none.
package spans
