// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package headers decides which headers pass between callers and pods, both ways.
//
// What enters: the header of a caller's request or of a pod's answer, the route, the target and the caller
// whose token must not pass. What leaves: the same header, changed in place. It never sees a body, and
// knows nothing of who may do what.
package headers
