// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package bind brings a provider's kinds into a workspace.
//
// # Responsibility
//
// [Look] compares the workspace with an export and returns a [Plan]: which permissions the provider gets that it does not
// have yet, and what a binding that exists already grants in addition. [Plan.Apply] creates or extends the APIBinding, and
// [Plan.Wait] returns when the workspace serves its kinds. A front end shows the plan and asks between the two.
//
// # Boundary
//
// The permission claims that a binding accepts are those of this package ([Claims]) and never those that an export asks for:
// a tenant cannot read the provider's export, and a provider that begins to ask for Secrets must not get them because
// somebody ran a command again. A test compares the list with the export that Sandbar installs.
//
// The package prints nothing. Texts in errors and plans may come from servers: escape them before they go to a terminal.
package bind
