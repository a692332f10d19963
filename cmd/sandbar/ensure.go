// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sandbar-dev/sandbar/client"
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

// ensure creates or resumes a SandboxRunner, and waits until it can be developed.
func (s *target) ensure(cmd *cobra.Command, name string, opts session.EnsureOptions) error {
	if err := checkCreate(opts); err != nil {
		return err
	}
	w, err := s.inWorkspace(cmd)
	if err != nil {
		return err
	}
	resource, err := parseResource(s.resource)
	if err != nil {
		return err
	}
	if resource != client.SandboxRunners {
		return &usageError{fmt.Errorf("--create makes SandboxRunners, and no %s", resource.Resource)}
	}
	show := w.Notes
	w.Notes = func(n session.Note) {
		if state, ok := n.(session.StateChanged); ok {
			s.name, s.uid, s.told = state.Name, string(state.UID), state.Text
		}
		show(n)
	}
	return w.Ensure(cmd.Context(), name, opts)
}
