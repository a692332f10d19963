// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build tools

// Package tools pins kcp, which hack/stack builds and runs. Its go.mod repeats kcp's own
// replaces, which do not count outside of kcp's module.
package tools

import (
	_ "github.com/kcp-dev/kcp/cmd/kcp"
	_ "github.com/kcp-dev/kcp/cmd/kcp-front-proxy"
)
