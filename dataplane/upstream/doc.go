// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package upstream carries requests to pods, and their answers back.
//
// What enters: a Call, which is a request that has been let through, with its target. What leaves: the
// answer, at the call's Writer, or the refusal that is to be written in its place; and in the Call the
// times, the cause of a cut, and the relay of a connection that has switched protocols. It never sees who
// may do what, nor which instances sleep: whoever gets here has the right, and the pod is there or not.
package upstream
