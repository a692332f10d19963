// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package runner is the program inside a development sandbox. It keeps the app
// running and serves the control contract: status, logs, files, commands, restart.
//
// # Responsibility
//
// [Run] ties together a workspace (package workspace), a supervised app (package
// supervise), a log (package ringlog) and an HTTP server. One file here is one
// question: config.go what can be set, auth.go who may call, server.go what
// happens to every request, and one file per endpoint. docs/runner.md is the contract.
//
// # What the control token protects, and what it does not
//
// The token keeps everybody else away from the control port: other pods, other
// tenants, whoever reaches the pod's network. It is compared in constant time,
// taken out of what the app inherits, and never logged or sent back. The process
// is made undumpable ([HideMemory]), so that a process of the same user cannot
// read it from /proc/PID/environ or from memory.
//
// It does not keep the app away from its own runner. Both run as the same user in
// the same container: the app can change the workspace itself, can signal the
// runner, and can read the token where it is mounted as a file that this user may
// read. It gains nothing by that which it could not do already; the token opens
// this sandbox only. What holds the app is the container, not the token.
//
// # Boundary
//
// The runner depends on the standard library, golang.org/x/sys and one WebSocket
// package (a test lists what is linked), knows nothing of Kubernetes, and runs on
// Linux only.
package runner
