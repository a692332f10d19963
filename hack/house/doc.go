// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package house holds tests of the repository itself: what its packages may import, and how its
// texts are written. It has no code that a program could use.
package house
