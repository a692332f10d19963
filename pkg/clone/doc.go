// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package clone makes a copy of a workload of a Baseline. It keeps what a copy needs of the workload (Freeze), as bytes
// within bounds, and makes the ID of a sandbox.
//
// The package is pure: it reads neither a clock nor a server, and equal input has equal output. Errors that another
// workload would not have are a *RefusedError, whose reason is that of a condition; its message names the field and the
// remedy. Any other error is a mistake of the caller.
package clone
