// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package members keeps the placements that have no owner yet: the members of SandboxSets. It makes, watches and removes them,
// and gives each to the one instance that takes it. How many a set has, package sandboxset decides; what a member is made of,
// the controller of its kind does (Kind).
//
// In: what the sets want, and the namespaces of members on the runtime cluster, each of which says itself whether it may be
// taken. Out: namespaces that are made, marked, adopted and removed, each under the version that was read, and a word to the
// set for each change.
//
//	members.go      the members of sets, made and removed
//	set.go          what a set wants, and what there is of a member
//	kind.go         what is needed of the controller of their kind
//	controller.go   one look at one member
//	adopt.go        which members an instance may take, and taking one
//	prepare.go      members that get other resources before an instance takes them
//	preparations.go which are being prepared, and for which instance
//	waiters.go      the instances that wait for a member
//	claimsfirst.go  claims go before new members
package members
