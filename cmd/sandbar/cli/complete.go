// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sandbar-dev/sandbar/client"
	"github.com/sandbar-dev/sandbar/client/object"
)

const (
	// CompletionTimeout bounds how long a shell waits for words after the tab key.
	CompletionTimeout = 3 * time.Second
	// MostCompletions bounds the names that are read.
	MostCompletions = 500
)

// completing gives a command the completion of its arguments and flags, as far as they are words of the workspace.
func (s *Target) completing(commands []*cobra.Command) []*cobra.Command {
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
func (s *Target) completeFlags(root *cobra.Command) {
	for name, complete := range map[string]cobra.CompletionFunc{
		"namespace": s.completeNamespace,
		"resource":  s.completeResource,
		"context":   s.completeContext,
	} {
		_ = root.RegisterFlagCompletionFunc(name, complete) // the flags are there: see the test
	}
}

// NoFiles is the answer to a shell that completes words of the workspace, and no files.
const NoFiles = cobra.ShellCompDirectiveNoFileComp

// completeObject completes KIND NAME… and KIND/NAME….
func (s *Target) completeObject(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), CompletionTimeout)
	defer cancel()
	if kind, name, slash := strings.Cut(word, "/"); slash {
		var found []cobra.Completion
		for _, c := range s.Names(ctx, kind, name, nil) {
			found = append(found, kind+"/"+c)
		}
		return found, NoFiles
	}
	if len(args) == 0 {
		return s.Kinds(ctx, word), NoFiles
	}
	if strings.Contains(args[0], "/") {
		return nil, NoFiles
	}
	return s.Names(ctx, args[0], word, args[1:]), NoFiles
}

// completeInstance completes NAME and KIND/NAME, or NAME of the kind that --resource names; what follows are files.
func (s *Target) completeInstance(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), CompletionTimeout)
	defer cancel()
	if s.Resource != "" {
		return s.Names(ctx, s.Resource, word, nil), NoFiles
	}
	if strings.Contains(word, "/") {
		return s.completeObject(cmd, nil, word)
	}
	return s.instances(ctx, word), NoFiles
}

// instances are the names of the instances that begin with a word, without those that need their kind.
func (s *Target) instances(ctx context.Context, word string) []cobra.Completion {
	c := s.Quiet()
	if c == nil {
		return nil
	}
	_, namespace, err := s.Workspace()
	if err != nil {
		return nil
	}
	names, err := c.NamesAlone(ctx, namespace, MostCompletions)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, word) })
}

// Kinds are those of the workspace, with their kind's name as the description.
func (s *Target) Kinds(ctx context.Context, word string) []cobra.Completion {
	c := s.Quiet()
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

// Names are those of the objects of a kind that begin with a word, without those that the call has already.
func (s *Target) Names(ctx context.Context, kind, word string, have []string) []cobra.Completion {
	c := s.Quiet()
	if c == nil {
		return nil
	}
	k, err := c.Kind(ctx, kind)
	if err != nil {
		return nil
	}
	_, namespace, err := s.Workspace()
	if err != nil {
		return nil
	}
	list, err := c.List(ctx, k, object.ListOptions{Namespace: namespace, Limit: MostCompletions})
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

// Quiet is a client whose warnings nobody sees: they would stand in the middle of a command line.
func (s *Target) Quiet() *object.Client {
	cfg, _, err := s.Workspace()
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

func (s *Target) completeNamespace(cmd *cobra.Command, _ []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), CompletionTimeout)
	defer cancel()
	c := s.Quiet()
	if c == nil {
		return nil, NoFiles
	}
	names, err := c.Namespaces(ctx, MostCompletions)
	if err != nil {
		return nil, NoFiles
	}
	return slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, word) }), NoFiles
}

// completeResource completes resource.group of the kinds that the workspace has.
func (s *Target) completeResource(cmd *cobra.Command, _ []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), CompletionTimeout)
	defer cancel()
	c := s.Quiet()
	if c == nil {
		return nil, NoFiles
	}
	kinds, err := c.Kinds(ctx)
	if err != nil {
		return nil, NoFiles
	}
	var found []cobra.Completion
	for _, k := range kinds {
		if name := k.Resource.GroupResource().String(); strings.HasPrefix(name, word) {
			found = append(found, name)
		}
	}
	return found, NoFiles
}

// completeContext completes the contexts of the kubeconfig.
func (s *Target) completeContext(_ *cobra.Command, _ []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = s.Kubeconfig
	raw, err := rules.Load()
	if err != nil {
		return nil, NoFiles
	}
	var found []cobra.Completion
	for name := range raw.Contexts {
		if strings.HasPrefix(name, word) {
			found = append(found, name)
		}
	}
	slices.Sort(found)
	return found, NoFiles
}

// OfferedBaselines are those that the workspace is offered, for the words after the tab key; none if they cannot be had now. A data
// plane that is not trusted is not asked, as for every command.
func (s *Target) OfferedBaselines(cmd *cobra.Command) []client.Baseline {
	ctx, cancel := context.WithTimeout(cmd.Context(), CompletionTimeout)
	defer cancel()
	w, err := s.Open()
	if err != nil {
		return nil // a shell has nowhere to show it
	}
	all, err := w.Baselines(ctx, "")
	if err != nil {
		return nil
	}
	return all
}
