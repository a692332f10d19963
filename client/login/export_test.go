// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package login

// TryWithin is Try with another bound of time.
var TryWithin = try
