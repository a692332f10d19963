// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package canary finds out whether kro composes. A kro that has stopped is invisible otherwise:
// everything that was Ready stays Ready, and what is created waits without a word.
//
// The provider has a ResourceGraphDefinition of its own, with one instance in its own namespace and
// one object that kro makes of it. Every so often the canary writes a beat, the time, into the
// instance's spec and waits for it to come back in the status, by way of the object: then kro has
// read the instance, written the object and read it back (ADR 18). That costs six beats a minute,
// however many tenants there are.
//
// What it found is the condition Composing of the InfrastructureProvider, written by package
// platform, and a cause in the conditions of instances that wait for kro, written by package
// instance.
package canary
