// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package doctor finds what is between a person and their sandboxes: it tries the steps on the way, from the kubeconfig to the
// right to use a verb, and says at which one it ends.
//
// # Responsibility
//
// [Examine] makes eight checks, in the order of [Names]. A check that needs another one is skipped after its failure, so that
// the first failure is the cause. Nothing is changed in the workspace or on this machine, and no credential goes to a data
// plane.
//
// # Boundary
//
// A check has a [Problem] that a front end turns into a remedy in its own words: this package does not name commands or
// flags. Details may come from servers: escape them before they go to a terminal.
package doctor
