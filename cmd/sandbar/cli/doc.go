// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package cli is what all commands of sandbar have in common: the flags that choose a workspace and an instance,
// the root command with its groups, arguments and their completion, exit codes, and the words in which a failure is
// explained. What a second front end would need is in client/session and client/object instead.
//
// # Responsibility
//
// One file is one question:
//   - root.go, args.go, suggest.go: which commands there are, and what is said of a call that is none
//   - target.go, objects.go, complete.go: which workspace, kind and instance a call means
//   - exit.go, errortext.go, diagnose.go, way.go: how a failure is told, and which exit code it has
//   - print.go, notes.go, meter.go, ask.go: how commands print, report and ask
package cli
