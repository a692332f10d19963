// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package devsession decides what a DevSession is made of, and when it takes the requests of the workload that it is about.
//
// In: a session as it is recorded in the placement, the copy of its workload as package clone has rendered it, and what has
// been observed of pods and endpoints. Out: a Deployment, a Service and a claim that stand beside the copy (Render), and the
// next stage of the switch (Next). What is wrong with a spec is a *RefusedError, whose reason is that of the condition
// Resolved; its message names the field and the remedy.
//
// The package is pure: it reads neither a clock nor a server, and equal input has equal output.
//
//	record.go   what is recorded of a session
//	stage.go    the switch, as a table of stages
//	check.go    which specs are refused for a copy
//	render.go   the objects
//	pod.go      the pod, with the runner before the command
//	refused.go  refusals
//
// docs/adr/0063-development-sessions.md has the decisions.
package devsession
