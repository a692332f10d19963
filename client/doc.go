// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package client is the caller's side of the data plane, for programs that drive instances: it
// finds an instance's data plane from the tenant's workspace and calls its verbs with the
// caller's own credential.
//
// # Responsibility
//
// One file is one question: client.go who calls and where the credential may go, offer.go which
// data planes a workspace names and how they are verified, instance.go
// what an instance is and where its verbs are, call.go how a verb is called and what its errors
// are, retry.go which of them pass, logs.go how a log is followed through lost connections,
// workspace.go how its files are listed, read and changed for package devsync,
// exec.go how a command is run there, forward.go how what the instance serves is served on this machine, preview.go how a browser
// gets to see it. Package session combines the verbs into the tasks of a person or an agent.
//
// # Boundary
//
// The package reads the instance from the workspace and never writes there. It sends the
// credential to data planes that the program has named and to nobody else: the address in an
// instance's status is what another workspace's provider wrote, and a token is worth more than
// one sandbox. It keeps no state but idle connections.
package client
