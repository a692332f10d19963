// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package interception puts proxies in front of Services of Baselines, as tenants' SandboxRoutes with provider proxy ask, and gives the
// Services their own pods back. Package intercept decides; this one reads and writes the runtime cluster.
//
// In: what the routes have written into the ConfigMap sandbar-proxy-routes of a namespace (Store), and what there is on the runtime
// cluster. Out: the proxies, their document, the selector of the live Service, and the result, in that ConfigMap. All that is
// remembered is there, and nothing in this process: one that starts goes on where the last one ended.
//
// It writes in namespaces in which an operator has given the right (sandbar-provider baseline grant), and follows those alone.
//
//	register.go    Options, Register, and what wakes a Service
//	reconciler.go  one Service: from what there is to the next step, until there is none
//	read.go        what there is
//	write.go       a step
//	store.go       what SandboxRoutes ask for, and the result
//	watch.go       the ConfigMaps, and what is in their namespaces
//	metrics.go     Services by the result, and switches
package interception
