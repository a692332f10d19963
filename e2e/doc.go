// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package e2e holds the promises of the whole, each a test against a real kcp, a real
// Kubernetes node and upstream kro, with the provider as a process of its own. A test acts
// as the people do: as a tenant with its own token in its own workspace, as a viewer, as a
// stranger, and only where it checks what is left as an operator of the runtime cluster.
//
// They share a stack and a provider. Those that wait longest and leave both as they are for others
// are parallel. Alone, before these, run those that kill or drain the provider, restart kcp, pause
// kro, write the provider's limits, start its one replica or call as fast as they can; those that
// count for the whole provider, for another's would count too; those whose times are of interest;
// and those that change Templates, each of which changes the one export that all workspaces have
// bound, but for TestAnUnusedInstanceSleeps.
//
// The tests need a running stack: make test-e2e starts one.
package e2e
