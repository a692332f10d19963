// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/sandbar-dev/sandbar/client"
	"github.com/sandbar-dev/sandbar/client/object"
	"github.com/sandbar-dev/sandbar/client/session"
	"github.com/sandbar-dev/sandbar/pkg/termsafe"
)

// ReasonIn is what a person reads of a call that failed: the server's own words, if there are some.
func ReasonIn(err error) string {
	var call *client.CallError
	if errors.As(err, &call) && call.Message != "" {
		return termsafe.Line(call.Message)
	}
	return termsafe.Line(err.Error())
}

// Explain is what a person reads of an error: what went wrong and, where it is known, what to do. All of it is safe for a
// terminal: addresses, hashes and names in it are what a provider or a server has written.
func Explain(err error) string { return termsafe.String(explained(err)) }

func explained(err error) string {
	var untrusted *client.UntrustedError
	text := termsafe.String(err.Error())
	var known *DiagnosedError
	if errors.As(err, &known) {
		return known.Text
	}
	if errors.Is(err, client.ErrNoCommands) {
		return client.ErrNoCommands.Error() + ": elsewhere, as in a Sandbox of any image, a command ends with the sandbar exec that began it, and sandbar exec NAME -- ps shows the processes if the image has ps"
	}
	var own *ExecError
	var call *client.CallError
	if errors.As(err, &own) && (own.Code != ExitOurs || errors.As(err, &call) && call.Sandbox) {
		return ReasonIn(err) // the program could not be run, and the sandbox says why
	}
	if errors.As(err, &call) && !call.Sandbox && call.Code == http.StatusConflict && call.Message != "" {
		return termsafe.Line(call.Message) // the instance's state and what to do, whatever was tried
	}
	if hint := hintOf(err); hint != "" {
		return hint
	}
	if errors.As(err, &untrusted) {
		return fmt.Sprintf("%s. If it is your provider's, run: sandbar trust %s", text, untrusted.Origin)
	}
	return text
}

// hintOf is an error of package session with the command or the flag that helps; empty for other errors.
func hintOf(err error) string {
	text := termsafe.String(err.Error())
	var unsafe *session.NotTrustedError
	var silent *session.ProbeError
	var left *session.LeftOutError
	var unbound *object.NotBoundError
	var nowhere *object.NoWorkspaceError
	var taken *object.OverwriteError
	var fields *object.FieldConflictError
	var kept *KeptError
	var forcible *ForcibleError
	var stale *object.ConflictError
	switch {
	case errors.As(err, &unsafe) && unsafe.Err != nil:
		return termsafe.String(fmt.Sprintf("no data plane may get your token yet, and nothing has been created: ask for the URL of your provider's, and run sandbar trust URL (%v)", unsafe.Err))
	case errors.As(err, &unsafe):
		return fmt.Sprintf("%s. If it is your provider's, run: sandbar trust %s", text, termsafe.Line(unsafe.Offer.URL))
	case errors.As(err, &silent):
		return termsafe.String(fmt.Sprintf("%v (nothing is trusted; --no-check trusts what cannot be reached from here)", silent.Err))
	case errors.As(err, &taken):
		return text + ": --overwrite changes it"
	case errors.As(err, &kept):
		return fmt.Sprintf("%s. Your changes are in %s", keptReason(kept.Err), kept.File)
	case errors.As(err, &fields):
		return text + ". Leave them out of the file, or take them over with --force-conflicts"
	case errors.As(err, &stale) && errors.As(err, &forcible) && !stale.Gone:
		return text + ". Read it again, or repeat with --force-conflicts"
	case errors.As(err, &stale) && stale.Current != nil:
		return text + ". Read it again, and repeat the command with version " + termsafe.Line(stale.Current.GetResourceVersion())
	case errors.As(err, &nowhere):
		return fmt.Sprintf("there is no workspace %s: name another one with --workspace, or choose another --context", termsafe.Line(nowhere.Workspace))
	case errors.As(err, &unbound):
		return notBound(unbound.Group, unbound.Group)
	case errors.Is(err, session.ErrNoTar), errors.Is(err, session.ErrNoTools):
		return text + " with --container"
	case errors.As(err, &left):
		return text + ", for the reasons above"
	case errors.Is(err, session.ErrNoComponents):
		return text + ": leave --component out"
	}
	return ""
}

// keptReason is why an edit was not taken.
func keptReason(err error) string {
	var stale *object.ConflictError
	text := strings.TrimSuffix(termsafe.String(err.Error()), ".")
	if errors.As(err, &stale) {
		text += ". Edit it again, or repeat with --force-conflicts"
	}
	return text
}

// KeptError is why an edit was not taken, with the file that has it.
type KeptError struct {
	// File has the edit, and Err is why it was not taken.
	File string
	Err  error
}

// Error implements error.
func (e *KeptError) Error() string { return e.Err.Error() }

// Unwrap returns the error that it explains.
func (e *KeptError) Unwrap() error { return e.Err }

// ForcibleError is an error of a command that --force-conflicts has ignore other writers' changes.
type ForcibleError struct{ Err error }

// Error implements error.
func (e *ForcibleError) Error() string { return e.Err.Error() }

// Unwrap returns the error that it explains.
func (e *ForcibleError) Unwrap() error { return e.Err }
