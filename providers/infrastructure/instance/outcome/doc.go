// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package outcome says what an observation means: from the results of a reconcile's phases and from what
// kro, the pods and the events say, it makes the conditions, the phase, the status and the events that a
// tenant reads. It is pure: it reads and writes nothing, and its tests are tables.
//
// What leaves goes to tenants: words.go decides which words of the runtime cluster they read.
package outcome
