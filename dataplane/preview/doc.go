// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package preview knows what a preview in a browser is made of: the host name that an instance
// has, the sealed links and sessions that stand for a caller, the cookie that carries a session,
// and which requests of a browser may use it. It is pure: no kcp, no informers, no clock of its
// own. Whether the caller may still see the instance is asked elsewhere, for each request.
//
// A link or a session holds who the caller was and which instance it is for; it never holds a
// token of the caller. It is sealed (AES-256-GCM) with a key that all replicas share, for one
// purpose and for one host, so that it opens nowhere else and as nothing else.
package preview
