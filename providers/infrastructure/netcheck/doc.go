// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package netcheck finds out whether the runtime cluster enforces network policies, which a
// placement's isolation is made of. An API server takes policies in any case, and a network plugin
// that ignores them says so nowhere.
//
// It starts four pods in a namespace of its own, which install has prepared with two policies: one
// pod that nobody may reach, one that may reach nobody, and one of each that no policy is about. What
// they find out is their exit codes (pkg/netcheck). The platform controller reports the result.
package netcheck
