// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package claim is the verb claim of SandboxTemplates: it creates a Sandbox of the template as the caller, and waits
// until it is Ready.
//
// What enters is the caller, whom package access has let use the verb, with the body of the request; what leaves is
// the Sandbox, or a refusal. All that is asked of kcp, and the one object that is written, is so with the caller's own
// token: package claim has no other credential, and no state. What a key of idempotency finds is in kcp, as a label
// and annotations of the Sandbox.
package claim
