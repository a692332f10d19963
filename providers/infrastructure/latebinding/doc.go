// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package latebinding gives variables to a pod that runs, through the runner in it (package runner, POST /env).
//
// In: a pod of a placement, the placement's control token, and the variables. Out: nil once the command of the pod has been
// started with them, or an error that has no value in it. The pod first proves that it has the token (package controlproof);
// one that does not gets nothing.
//
// The way leads through the runtime cluster's API server. RBAC cannot say more than pods/proxy; the admission policy of the
// controllers leaves the two paths of this package, at the runner's port, in placements of this provider
// (install/manifests/runtime/50-admission.yaml).
//
// It keeps no state of what was delivered: to deliver the same once more starts nothing again.
package latebinding
