// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package netcheck finds out whether the runtime cluster enforces network policies, which a
// placement's isolation is made of, and whether sandboxes resolve names under the egress policy that
// the operator has configured. An API server takes policies in any case, and a network plugin that
// ignores them says so nowhere; nor does anything say that the cluster's DNS is elsewhere than the policy
// allows.
//
// It starts pods in a namespace of its own. Install has prepared it with two policies: one pod that nobody
// may reach, one that may reach nobody, and one of each that no policy is about. Of two more that look up a
// name, one is under the egress policy of placements, which is written here before each check, since it
// follows the settings. What the pods find out is their exit codes (pkg/netcheck). The platform controller
// reports the results.
package netcheck
