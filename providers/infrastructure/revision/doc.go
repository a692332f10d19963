// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package revision makes one kro graph of several revisions of a Template's graph, so that a change
// of the operator reaches instances one by one (ADR 17).
//
// kro composes every instance of a kind with the latest graph, and each time that the ConfigMap
// sandbar-platform changes. So the graph that kro gets holds each revision that instances still
// have, as resources of its own, and an instance's spec.sandbarRevision says which of them are
// included. The children of all revisions are the same objects on the runtime cluster: an instance
// that goes from one revision to another keeps them, and kro changes in place what differs.
//
// A revision is a graph and the values of the platform that the graph reads. The values of a
// revision stand in a ConfigMap of its own, which never changes; authors of Templates go on to
// write sandbar-platform.
//
// What must hold, or kro would delete the children of an instance, its volumes too: every instance
// includes the resources of exactly one revision, whatever its spec.sandbarRevision says. The
// conditions are made in one place for that, see conditions in merge.go.
//
// The package is pure. Package template applies what it makes, package rollout decides which
// instance changes when, and package instance writes spec.sandbarRevision.
package revision
