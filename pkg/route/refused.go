// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package route

import (
	"fmt"
	"strings"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// RefusedError says why a SandboxRoute is not rendered.
type RefusedError struct {
	// Reason is one of those of the condition Attached: InvalidSpec or NotAllowed.
	Reason string
	// Message names the field and what to do.
	Message string
}

func (r *RefusedError) Error() string { return r.Message }

// maxMessage is how many bytes a message has at most. The attack: a header of 4 KiB in each of 512 matches, which a message
// repeats, and with which no condition could be written.
const maxMessage = 1 << 10

func refuse(reason, format string, args ...any) error {
	return &RefusedError{Reason: reason, Message: bounded(fmt.Sprintf(format, args...))}
}

func invalid(format string, args ...any) error {
	return refuse(sandbarv1alpha1.RouteInvalidSpec, format, args...)
}

func bounded(message string) string {
	const cut = "…"
	if len(message) <= maxMessage {
		return message
	}
	return strings.ToValidUTF8(message[:maxMessage-len(cut)], "") + cut
}
