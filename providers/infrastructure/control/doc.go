// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package control keeps the control tokens of placements: the Secret sandbar-control in each
// placement, by which its pods and the data plane know that they belong together.
//
// A token is derived from a key of the provider's (the Secret sandbar-control-keys in
// sandbar-system) and from the placement's identity, so that a Secret that somebody deletes or
// edits is made again as it was, also while kcp is away. The newest key makes the token, the one
// before it the entry "previous"; a new key is a rotation, which is written at a bounded rate.
//
// Tokens that were made up at random, before there were keys or while there are none, stay as they
// are: they cannot be made again, and pods that read them once would be locked out by others.
package control
