// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build race

package proxy

// isRace says that the race detector is on.
const isRace = true
