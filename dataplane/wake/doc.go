// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package wake holds requests for instances that sleep, until they can be reached.
//
// What enters: a Call with the placement of an instance, the route and the endpoint of a request whose use
// of the instance is on record, which alone wakes it. What leaves: the placement as it then is, or the
// refusal: somebody else has suspended it, it takes too long, too many wait. It never sees who the caller
// is, nor the request's header or body: after a wait the caller's right is looked at again by whoever asked.
package wake
