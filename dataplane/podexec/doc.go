// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package podexec finds the process of a command that runs in a pod without a runner, and ends it when the
// caller of exec has gone. Kubernetes does not: a container runtime keeps a command until it exits by itself
// (kubernetes/kubernetes#89031, opencontainers/runc#3359).
//
// What enters: a Command, and the connection over which the API server runs it. What leaves: a Conn that
// carries the same bytes as if the command had been run as it is, and that knows at its end which Process is
// left; and End, which ends one. The package knows the remote command protocol of Kubernetes and two shell
// scripts. It knows neither callers and their rights nor pods and their names.
//
// The words of a pod are the tenant's: of a process nothing but two numbers is kept.
package podexec
