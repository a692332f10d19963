// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package supervise keeps one app running: it starts the command, starts it again
// when it ends, and stops it with everything that came from it.
//
// # Responsibility
//
// A [Supervisor] is one state machine in one goroutine ([Supervisor.Run]), which
// alone decides what happens to the process. Others ask it by [Supervisor.Restart]
// and look at a snapshot by [Supervisor.Status].
//
//	NotConfigured             no command
//	Starting → Running        a process was asked for, and is there
//	Running  → Backoff        it ended by itself; it is started again after a delay
//	any      → Stopping       it is being stopped, for a restart or for good
//	Stopping → Stopped        for good: Run has ended
//
// The delay begins at 500 ms, doubles with each failure up to 30 s, and begins
// anew after the app ran for 10 s or when a restart was asked for.
//
// # Nothing is left behind
//
// The app runs in its own process group, but a descendant can leave the group
// (setsid) and lose its parent (a double fork). The runner is therefore a child
// subreaper: a descendant that loses its parent becomes the runner's child, never
// somebody else's. All that descends from the runner's process is then found by
// walking /proc, and stopping ends only when none is left.
//
// # An input that never ends
//
// The app's input is a pipe in which nothing arrives. Watch modes of esbuild, Tailwind and react-scripts
// take the end of their input for the end of the terminal that they were started from, and end too.
//
// # One reaper
//
// A subreaper has to wait for children it does not know, with wait4(-1). Such a
// wait can take the exit status of the app away from whoever waits for it by its
// PID, os/exec for one. So there is a single place that waits, [Reaper], and the
// app is started through it while it is not waiting. There can be only one Reaper
// in a process, and nothing else in that process may start children.
//
// # Boundary
//
// The package knows nothing of HTTP, of logs, or of files. What the app writes is
// handed, as pipes, to [Options.Drain].
package supervise
