// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build tools

// Package tools pins the Traefik that hack/stack builds and runs as the Gateway API controller of a stack.
package tools

import _ "github.com/traefik/traefik/v3/cmd/traefik"
