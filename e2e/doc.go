// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package e2e holds the promises of the whole, each a test against a real kcp, a real
// Kubernetes node and upstream kro, with the provider as a process of its own. A test acts
// as the people do: as a tenant with its own token in its own workspace, as a viewer, as a
// stranger, and only where it checks what is left as an operator of the runtime cluster.
//
// The tests need a running stack: make test-e2e starts one.
package e2e
