// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"errors"
	"fmt"
	"time"

	"github.com/sandbar-dev/sandbar/providers/infrastructure/platform"
)

// Reasons of Placed while an instance waits for room.
const (
	ReasonWorkspaceLimit  = "WorkspaceLimit"
	ReasonPlacementsLimit = "PlacementsLimit"
)

// FullError says that an instance has to wait until another one is gone.
type FullError struct{ Reason, Message string }

func (e *FullError) Error() string { return e.Message }

// Reasons of Placed and Ready of an instance that starts with a sandbox of a set or not at all, and of Ready of one
// that has taken too long to start.
const (
	ReasonWaitsForMember = "WaitingForMember"
	ReasonWarmImpossible = "WarmImpossible"
	ReasonStartTimedOut  = "StartTimedOut"
	// ReasonResizing: the sandbox that it takes is being given the resources of its template.
	ReasonResizing = "Resizing"
)

// Reasons of Placed and Ready of an instance with variables of its own (spec.env, spec.envFrom).
const (
	// ReasonSecretsNotShared: a Secret that it names is not there, or is not shared with the provider.
	ReasonSecretsNotShared = "SecretsNotShared"
	// ReasonEnvRefused: it cannot have one of the variables.
	ReasonEnvRefused = "EnvRefused"
	// ReasonEnvNotDelivered: the sandbox that it has taken has not got them yet.
	ReasonEnvNotDelivered = "EnvNotDelivered"
)

// StartError says why an instance has not started that starts with a sandbox of a set, or not at all (prewarm: Require).
type StartError struct {
	Reason, Message string
	// Failed: nothing but a change of the spec, or of its template, makes it start.
	Failed bool
	// Again is after which time to look again; zero means never.
	Again time.Duration
}

func (e *StartError) Error() string { return e.Message }

// startOfPlacing is the StartError for which an instance has no placement; nil for any other reason.
func startOfPlacing(o Outcome) *StartError {
	var start *StartError
	errors.As(o.Placing, &start)
	return start
}

// ConfigurationError says that the operator has to correct the InfrastructureProvider.
type ConfigurationError struct {
	// Problem begins with the field. If it is empty, it is made of the others.
	Problem            string
	Field, Value, Want string
}

func (e *ConfigurationError) Error() string {
	if e.Problem != "" {
		return e.Problem
	}
	return fmt.Sprintf("InfrastructureProvider %s: %q is not %s", e.Field, e.Value, e.Want)
}

// LevelError says that the runtime cluster does not let placements enforce the level that the
// operator has set. No event tells when it does, so it is tried again.
type LevelError struct{ Level string }

func (e *LevelError) Error() string { return platform.LevelProblem(e.Level) }

// ErrNotConfigured means that the operator has not created the InfrastructureProvider.
var ErrNotConfigured = errors.New("the provider is not configured")

// RefusalError is an error of composing that only another spec, or the operator, mends.
type RefusalError struct {
	// Reason is that of Composed; message tells what is wrong and what to do.
	Reason, Message string
	// Recheck is after which time to look again for what no event tells of; zero means never.
	Recheck time.Duration
}

func (r *RefusalError) Error() string { return r.Message }

// Again returns after which time to try again what has been refused since then; zero means never.
func (r *RefusalError) Again(since, now time.Time) time.Duration {
	if r.Recheck == 0 {
		return 0
	}
	return min(max(now.Sub(since), r.Recheck), RefusedMost)
}

// ErrTerminating means that the placement's namespace is being deleted although its instance
// lives. Its end is an event; until then nothing can be made in it.
var ErrTerminating = errors.New("the placement is being removed")

// ReasonTemplateRef is a reason of Composed: spec.….templateRef leads to nothing that can be used.
const ReasonTemplateRef = "TemplateNotUsable"

// RefusedMost bounds the time between two tries of what the runtime cluster goes on refusing.
const RefusedMost = 5 * time.Minute
