// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package lifecycle records when instances are used, in the Lease of each placement, so that the controllers
// do not put an instance to sleep or delete it while a request uses it.
//
// What enters is the placement that a request is for, after kcp has let the caller through, and the context of
// the request that waits for the record; what leaves is the use, which the request ends, or a refusal. It must
// never see a request, a caller or a credential.
package lifecycle
