// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package podexec marks the processes of a command that runs in a pod without a runner, so that what is left of
// them can be found and ended when the caller of exec has gone. Kubernetes does not end them: a container
// runtime keeps a command until it exits by itself (kubernetes/kubernetes#89031, opencontainers/runc#3359).
//
// What enters: a Command, and the connection over which the API server runs it. What leaves: a Conn that carries
// the same bytes as if the command had been run without the mark, and that knows whether the command has ended;
// and the command that ends the processes with the mark. The package knows the remote command protocol of
// Kubernetes, the program env and one shell script. It knows neither callers and their rights nor pods.
//
// The words of a pod are the tenant's: nothing is decided by them but how a refusal of env is worded.
package podexec
