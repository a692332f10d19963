// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package compound makes compound instances: those that have workloads in the place of a pod template (Template.spec.compound).
// Such an instance has nothing on the runtime cluster. It has a part, an instance of another kind in the same namespace and of
// the same name, which has copies of the workloads: a Sandbox has a SandboxGroup.
//
//	plan.go    what the part has to be; it asks nobody
//	apply.go   makes the part so, and deletes it
//	rollup.go  what the part's status means for the instance; it asks nobody
//	phase.go   the same in one word
//
// The controller of the instance's kind (package instance) calls these in that order, and alone writes the instance's
// status. How a part is placed and composed is that package's business too, as for every instance of the part's kind.
package compound
