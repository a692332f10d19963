// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package develop

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sandbar-dev/sandbar/client"
	"github.com/sandbar-dev/sandbar/client/object"
	"github.com/sandbar-dev/sandbar/client/session"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
)

// checkCreate refuses flags for which a SandboxRunner would be created in vain.
func checkCreate(opts session.EnsureOptions) error {
	if opts.Timeout <= 0 {
		return &cli.UsageError{Err: fmt.Errorf("--timeout %s leaves no time to wait", opts.Timeout)}
	}
	if known := session.Toolchains; opts.Toolchain != "" && !slices.Contains(known, opts.Toolchain) {
		return &cli.UsageError{Err: fmt.Errorf("--toolchain %q: there are %s%s", opts.Toolchain, strings.Join(known, ", "), cli.DidYouMean(opts.Toolchain, "", known))}
	}
	return opts.Check()
}

// ensure creates or resumes the SandboxRunner that an argument names, and waits until it can be developed.
func (s *target) ensure(cmd *cobra.Command, argument string, opts session.EnsureOptions) error {
	r, err := s.Refer(argument)
	if err != nil {
		return err
	}
	if err := checkCreate(opts); err != nil {
		return err
	}
	w, err := s.InWorkspace(cmd)
	if err != nil {
		return err
	}
	if r.Kind != "" || !r.Resource.Empty() {
		onlyRunners := func(k object.Kind) error {
			if k.Resource == client.SandboxRunners {
				return nil
			}
			return &cli.UsageError{Err: fmt.Errorf("--create makes SandboxRunners, and no %s", k.Resource.Resource)}
		}
		if err := s.WithKindOf(cmd.Context(), argument, onlyRunners); err != nil {
			return err
		}
	}
	show := w.Notes
	w.Notes = func(n session.Note) {
		if state, ok := n.(session.StateChanged); ok {
			s.Name, s.UID, s.Told = state.Name, string(state.UID), state.Text
		}
		show(n)
	}
	return w.Ensure(cmd.Context(), r.Name, opts)
}
