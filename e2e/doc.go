// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package e2e holds the promises of the whole, each a test against a real kcp, a real
// Kubernetes node and upstream kro, with the provider as a process of its own. A test acts
// as the people do: as a tenant with its own token in its own workspace, as a viewer, as a
// stranger, and only where it checks what is left as an operator of the runtime cluster.
//
// They share a stack and a provider. Each test says in its first statement how it treats them
// (sides_test.go): calm ones leave both as they are and run side by side; those that change Templates
// or settings change the one export that all workspaces have bound, and run three at a time after them;
// those that break something run alone, last. Long ones, of which make test has none, belong to
// make test-all, and say why.
//
// The tests need a running stack: make test-e2e starts one.
package e2e
