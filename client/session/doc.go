// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package session is what a person or an agent does with a sandbox, for programs that are a front end:
// a command line, an editor, a server of tools. Package client has the single verbs; a function here combines
// several of them, and files of this machine, into one task.
//
// # Responsibility
//
// One file is one question:
//   - workspace.go: who acts, and in which workspace
//   - ensure.go, state.go: how a SandboxRunner is created or resumed, and waited for
//   - parts.go, dependencies.go: which directory of a project belongs to which component, and whether its packages
//     are installed there
//   - trust.go, truststore.go: which data planes may get the person's credential
//   - copy.go, copyup.go, copydown.go: how files are copied through a runner
//   - copypod.go, copypodup.go, copypoddown.go: how they are copied by programs of a pod without a runner
//   - device.go: which paths of this machine a copy writes into, and which it replaces
//   - note.go, copyprogress.go: what a front end is told during a call
//   - usage.go: which errors are mistakes in the call
//
// # Boundary
//
// Enters: the workspace's configuration, instances of package client, paths of this machine, options, and the
// function that asks a person for their consent. Leaves: return values, errors, and progress as [Note] values. A
// [UsageError] is a mistake in the call. Errors do not name flags or commands: the types and variables of this
// package that are errors let a front end name its own.
//
// The package does not read flags or environment variables, print, or end the program. What a sandbox sends is
// chosen by code that runs in it: copies write only below the directory that the caller names.
package session
