// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package compound makes compound instances: those that have workloads in the place of a pod template (Template.spec.compound).
// Such an instance has nothing on the runtime cluster. It has parts in the same namespace and of the same name: an instance of another
// kind, which has copies of the workloads, and, if it has routing, an object of a built-in kind that leads requests to them. A Sandbox
// has a SandboxGroup and a SandboxRoute.
//
//	plan.go      what the part with the copies has to be; it asks nobody
//	planroute.go what the part that leads requests has to be
//	correct.go   how one that is there differs from that
//	apply.go     makes a part so, and deletes it
//	piece.go     what was found of the parts
//	rollup.go    what their status means for the instance; it asks nobody
//	judge.go     the same in conditions, rollroute.go in the words of a route, phase.go in one word
//
// The controller of the instance's kind (package instance) calls these in that order, and alone writes the instance's
// status. How copies are placed and composed is that package's business too, as for every instance of their kind; how requests are led
// is that of package sandboxroute.
package compound
