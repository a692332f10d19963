// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package login writes the way to a workspace, with a credential, into a kubeconfig.
//
// # Responsibility
//
// server.go reads the address of a workspace; login.go puts it and a credential into a context of a kubeconfig; try.go asks
// the workspace whether it knows the credential; logout.go takes out what a login has put in.
//
// # Boundary
//
// A context, a cluster or a user that leads elsewhere is never overwritten, and nothing is removed that a login has not
// written: kubeconfigs hold credentials that nobody can make again. A front end tries the credential ([Try]) before it
// writes ([Login.Write]).
package login
