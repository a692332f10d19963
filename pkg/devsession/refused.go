// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package devsession

import "fmt"

// RefusedError says why no session can be made of a spec.
type RefusedError struct {
	// Reason is one of the condition Resolved.
	Reason string
	// Message names the field and what to do.
	Message string
}

func (e *RefusedError) Error() string { return e.Message }

// Refuse returns a *RefusedError.
func Refuse(reason, format string, args ...any) error {
	return &RefusedError{Reason: reason, Message: fmt.Sprintf(format, args...)}
}
