// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build tools

// Package tools pins the Gateway API whose CRDs the stack installs. Nothing of
// it is compiled.
package tools

import _ "sigs.k8s.io/gateway-api/apis/v1"
