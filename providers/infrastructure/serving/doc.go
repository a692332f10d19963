// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package serving watches the replicas of the data plane for the controllers: which there are,
// whether each of them still renews its Lease, and whether the clocks agree. From that follows
// whether instances may be put to sleep or deleted for being unused (pkg/inuse has the rules).
//
// It decides nothing about single instances; package instance does, and asks here twice: for a
// look that is a moment old, and before an instance is taken for one of that moment.
package serving
