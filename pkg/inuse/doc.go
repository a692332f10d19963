// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package inuse holds the rules that keep an instance in use from being put to sleep or deleted
// for being unused. The data plane and the controllers both follow them and share nothing but
// Leases on the runtime cluster. The package reads and writes nothing by itself.
//
//  1. Use is recorded before it happens (record.go). A replica of the data plane lets a request
//     through to an instance only while the instance's Lease, as the API server has confirmed it,
//     covers this moment. A replica that is cut off, paused or killed therefore takes no knowledge
//     of use with it, and the controllers need no replica's word to know the last use.
//  2. Each replica has a Lease of its own (fence.go). One that has not seen its own renewal come
//     back within FenceAfter stops serving.
//  3. The controllers judge the replicas by the renewals that they see (judge.go). While a replica
//     may still serve and does not renew, nothing is taken; while one is silent, nothing is deleted.
//  4. A process that records takes the later of two clocks, its own and the API server's; one that
//     judges takes the earlier (clock.go). One wrong clock makes no instance look unused.
//
// providers/infrastructure/instance/model_test.go explores all of it with replicas that are cut
// off, paused and killed, and clocks that jump; docs/adr/0013-use-is-recorded-before-it-happens.md has the reasons.
package inuse
