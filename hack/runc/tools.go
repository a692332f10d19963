// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build tools

// Package tools pins the runc that hack/stack builds and runs.
package tools

import _ "github.com/opencontainers/runc"
