// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package baseline is the controller of Baselines: it finds the workloads and Services of the runtime cluster that a
// Baseline designates, and writes them into its status, which is what the data plane shows to tenants.
//
// It reads a namespace by rights that an operator has given in that namespace (sandbar-provider baseline grant), and has
// no rights to give itself any. It writes nothing on the runtime cluster, and follows only the namespaces of Baselines:
//
//	register.go    Options, Register, and what wakes a Baseline
//	reconciler.go  one Baseline: from the spec to the status
//	sources.go     which namespaces are followed, for which Baselines
//	namespace.go   one namespace: its watches, and what is known of it
//	keep.go        what is kept of a workload and of a Service
//	choose.go      pure: what of the namespaces belongs to a Baseline, within its bounds
//	conditions.go  pure: what is wrong, and what to do about it
package baseline
