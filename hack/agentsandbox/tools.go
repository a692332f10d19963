// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build tools

// Package agentsandbox pins Kubernetes' agent-sandbox, whose controllers bench/claim measures beside Sandbar. It is a module
// of its own, so that Sandbar does not depend on agent-sandbox.
package agentsandbox

import _ "sigs.k8s.io/agent-sandbox/cmd/agent-sandbox-controller" // the controllers
