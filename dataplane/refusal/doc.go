// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package refusal is how the data plane says no: every error that ends a request is one of its values,
// made here, with a cause for metrics and access lines, a message for the caller and an answer as
// metav1.Status.
//
// What enters is what the steps have found; what leaves is an answer to the caller. It must never see a
// credential, and an Error's Message must never name what the caller may not know of: Forbidden,
// ForbiddenByName and NotFound are one and the same for what exists and for what does not.
package refusal
