// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sandbar-dev/sandbar/client"
	"github.com/sandbar-dev/sandbar/client/object"
	"github.com/sandbar-dev/sandbar/client/session"
)

// checkCreate refuses flags for which a SandboxRunner would be created in vain.
func checkCreate(opts session.EnsureOptions) error {
	if opts.Timeout <= 0 {
		return &usageError{fmt.Errorf("--timeout %s leaves no time to wait", opts.Timeout)}
	}
	if known := session.Toolchains; opts.Toolchain != "" && !slices.Contains(known, opts.Toolchain) {
		return &usageError{fmt.Errorf("--toolchain %q: there are %s%s", opts.Toolchain, strings.Join(known, ", "), didYouMean(opts.Toolchain, "", known))}
	}
	return opts.Check()
}

// ensure creates or resumes the SandboxRunner that an argument names, and waits until it can be developed.
func (s *target) ensure(cmd *cobra.Command, argument string, opts session.EnsureOptions) error {
	r, err := s.refer(argument)
	if err != nil {
		return err
	}
	if err := checkCreate(opts); err != nil {
		return err
	}
	w, err := s.inWorkspace(cmd)
	if err != nil {
		return err
	}
	if r.Kind != "" || !r.Resource.Empty() {
		onlyRunners := func(k object.Kind) error {
			if k.Resource == client.SandboxRunners {
				return nil
			}
			return &usageError{fmt.Errorf("--create makes SandboxRunners, and no %s", k.Resource.Resource)}
		}
		if err := s.withKindOf(cmd.Context(), argument, onlyRunners); err != nil {
			return err
		}
	}
	show := w.Notes
	w.Notes = func(n session.Note) {
		if state, ok := n.(session.StateChanged); ok {
			s.name, s.uid, s.told = state.Name, string(state.UID), state.Text
		}
		show(n)
	}
	return w.Ensure(cmd.Context(), r.Name, opts)
}
