// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package tenant

import "time"

// Outcome is kcp's answer to a question.
type Outcome int

// Outcomes of what the Client does.
const (
	// Unavailable means that kcp gave no answer; Answer.Err says why. It must never be taken
	// for any of the others. It is the zero value, so that a forgotten answer fails closed.
	Unavailable Outcome = iota
	// Allowed means that the object was read, or that the review allows.
	Allowed
	// Denied means that the caller may not.
	Denied
	// NoAccess means, of a review, that the caller has no access to the workspace or that there is no
	// such workspace. kcp does not let a stranger tell these apart, and neither may we.
	NoAccess
	// NotFound means that there is no such object, or no such workspace.
	NotFound
	// Unauthorized means that kcp does not know the caller.
	Unauthorized
	// ClaimNotAccepted means that kcp cannot be asked about a Subject: the workspace's APIBinding
	// has not accepted the permission claim.
	ClaimNotAccepted
	// Refused means that kcp does not take what was to be written; Written says why.
	Refused
)

// String implements fmt.Stringer; the words are metric labels.
func (o Outcome) String() string {
	switch o {
	case Allowed:
		return "allowed"
	case Denied:
		return "denied"
	case NoAccess:
		return "no_access"
	case NotFound:
		return "not_found"
	case Unauthorized:
		return "unauthorized"
	case ClaimNotAccepted:
		return "claim_not_accepted"
	case Refused:
		return "refused"
	default:
		return "unavailable"
	}
}

// Answer is an outcome with the cause of Unavailable.
type Answer struct {
	Outcome Outcome
	// Err is why kcp is Unavailable; nil otherwise. It holds no credential.
	Err error
	// RetryAfter is what kcp asked for when it was too busy; zero otherwise.
	RetryAfter time.Duration
}
