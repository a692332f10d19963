// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sandbar-dev/sandbar/client/object"
)

const (
	// completionTimeout bounds how long a shell waits for words after the tab key.
	completionTimeout = 3 * time.Second
	// mostCompletions bounds the names that are read.
	mostCompletions = 500
)

// completing gives a command the completion of its arguments and flags, as far as they are words of the workspace.
func (s *target) completing(commands []*cobra.Command) []*cobra.Command {
	for _, c := range commands {
		switch {
		case c.ValidArgsFunction != nil: // the command's own
		case takesKind(c):
			c.ValidArgsFunction = s.completeObject
		case namesInstance(c): // cp and doctor take no name
			c.ValidArgsFunction = s.completeInstance
		}
		if c.Flags().Lookup("output") != nil && takesKind(c) {
			_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]cobra.Completion{"json", "yaml", "name", "wide", "jsonpath=", "custom-columns="}, cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace)) // the flag is there
		}
	}
	return commands
}

func takesKind(c *cobra.Command) bool { return strings.HasPrefix(c.Use, c.Name()+" KIND") }

// completeFlags completes flags of all commands.
func (s *target) completeFlags(root *cobra.Command) {
	for name, complete := range map[string]cobra.CompletionFunc{
		"namespace": s.completeNamespace,
		"resource":  s.completeResource,
		"context":   s.completeContext,
	} {
		_ = root.RegisterFlagCompletionFunc(name, complete) // the flags are there: see the test
	}
}

const noFiles = cobra.ShellCompDirectiveNoFileComp

// completeObject completes KIND NAME… and KIND/NAME….
func (s *target) completeObject(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	if kind, name, slash := strings.Cut(word, "/"); slash {
		var found []cobra.Completion
		for _, c := range s.names(ctx, kind, name, nil) {
			found = append(found, kind+"/"+c)
		}
		return found, noFiles
	}
	if len(args) == 0 {
		return s.kinds(ctx, word), noFiles
	}
	if strings.Contains(args[0], "/") {
		return nil, noFiles
	}
	return s.names(ctx, args[0], word, args[1:]), noFiles
}

// completeInstance completes NAME and KIND/NAME, or NAME of the kind that --resource names; what follows are files.
func (s *target) completeInstance(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	if s.resource != "" {
		return s.names(ctx, s.resource, word, nil), noFiles
	}
	if strings.Contains(word, "/") {
		return s.completeObject(cmd, nil, word)
	}
	return s.instances(ctx, word), noFiles
}

// instances are the names of the instances that begin with a word, without those that need their kind.
func (s *target) instances(ctx context.Context, word string) []cobra.Completion {
	c := s.quiet()
	if c == nil {
		return nil
	}
	_, namespace, err := s.workspace()
	if err != nil {
		return nil
	}
	names, err := c.NamesAlone(ctx, namespace, mostCompletions)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, word) })
}

// kinds are those of the workspace, with their kind's name as the description.
func (s *target) kinds(ctx context.Context, word string) []cobra.Completion {
	c := s.quiet()
	if c == nil {
		return nil
	}
	kinds, err := c.Kinds(ctx)
	if err != nil {
		return nil // a shell has nowhere to show it
	}
	var found []cobra.Completion
	for _, k := range kinds {
		for _, name := range append([]string{k.Resource.Resource, k.Singular}, k.ShortNames...) {
			if strings.HasPrefix(name, word) {
				found = append(found, cobra.CompletionWithDesc(name, k.Name))
				break
			}
		}
	}
	return found
}

// names are those of the objects of a kind that begin with a word, without those that the call has already.
func (s *target) names(ctx context.Context, kind, word string, have []string) []cobra.Completion {
	c := s.quiet()
	if c == nil {
		return nil
	}
	k, err := c.Kind(ctx, kind)
	if err != nil {
		return nil
	}
	_, namespace, err := s.workspace()
	if err != nil {
		return nil
	}
	list, err := c.List(ctx, k, object.ListOptions{Namespace: namespace, Limit: mostCompletions})
	if err != nil {
		return nil
	}
	var found []cobra.Completion
	for _, item := range list.Items {
		if name := item.GetName(); strings.HasPrefix(name, word) && !slices.Contains(have, name) {
			found = append(found, name)
		}
	}
	return found
}

// quiet is a client whose warnings nobody sees: they would stand in the middle of a command line.
func (s *target) quiet() *object.Client {
	cfg, _, err := s.workspace()
	if err != nil {
		return nil
	}
	cfg.WarningHandler = rest.NoWarnings{}
	c, err := object.New(cfg)
	if err != nil {
		return nil
	}
	return c
}

func (s *target) completeNamespace(cmd *cobra.Command, _ []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	c := s.quiet()
	if c == nil {
		return nil, noFiles
	}
	names, err := c.Namespaces(ctx, mostCompletions)
	if err != nil {
		return nil, noFiles
	}
	return slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, word) }), noFiles
}

// completeResource completes resource.group of the kinds that the workspace has.
func (s *target) completeResource(cmd *cobra.Command, _ []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	c := s.quiet()
	if c == nil {
		return nil, noFiles
	}
	kinds, err := c.Kinds(ctx)
	if err != nil {
		return nil, noFiles
	}
	var found []cobra.Completion
	for _, k := range kinds {
		if name := k.Resource.GroupResource().String(); strings.HasPrefix(name, word) {
			found = append(found, name)
		}
	}
	return found, noFiles
}

// completeContext completes the contexts of the kubeconfig.
func (s *target) completeContext(_ *cobra.Command, _ []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = s.kubeconfig
	raw, err := rules.Load()
	if err != nil {
		return nil, noFiles
	}
	var found []cobra.Completion
	for name := range raw.Contexts {
		if strings.HasPrefix(name, word) {
			found = append(found, name)
		}
	}
	slices.Sort(found)
	return found, noFiles
}
