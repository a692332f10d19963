// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package scope holds what one reconcile is given of its instance: the tenant's object, its placement's
// identity and the operator's settings. Nothing is assigned to a Scope once it is made; a test of
// hack/house finds an assignment.
package scope
