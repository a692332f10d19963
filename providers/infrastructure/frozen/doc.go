// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package frozen keeps what a placement has of the workloads that its components are copies of: the ID by which requests are
// routed to it, and a snapshot for each component.
//
// In: the placement's namespace and the snapshots. Out: the one ConfigMap that has them, and them again. An error that
// another set of components would not have is a *clone.RefusedError; ErrChanged says that somebody else has written meanwhile.
//
//	frozen.go  what is kept, and as which fields of the ConfigMap
//	store.go   reading and writing it
package frozen
