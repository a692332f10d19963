// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package session

import "fmt"

// UsageError is a mistake in the call, such as a name that does not exist: to repeat the call does not help.
type UsageError struct{ Err error }

// Error implements error.
func (e *UsageError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *UsageError) Unwrap() error { return e.Err }

func usage(format string, args ...any) error {
	return &UsageError{fmt.Errorf(format, args...)}
}
