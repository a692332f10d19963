// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/sandbar-dev/sandbar/client/object"
)

// objectArgs are the arguments of a command about objects: KIND [NAME…] or KIND/NAME….
type objectArgs struct {
	kind  string
	names []string
}

// parseObjectArgs reads the arguments, of which a KIND is the first. It does not ask the workspace.
func parseObjectArgs(cmd *cobra.Command, args []string) (objectArgs, error) {
	if len(args) == 0 || args[0] == "" {
		return objectArgs{}, &usageError{fmt.Errorf("%s needs a KIND, for example: %s; see %s --help", cmd.Name(), exampleOf(cmd), cmd.CommandPath())}
	}
	var a objectArgs
	apart := !strings.Contains(args[0], "/")
	if apart {
		a.kind, args = args[0], args[1:]
	}
	for _, arg := range args {
		r, err := object.ParseReference(arg)
		if err != nil {
			return objectArgs{}, err
		}
		if apart != (r.Kind == "") || !apart && a.kind != "" && a.kind != r.Kind {
			return objectArgs{}, &usageError{fmt.Errorf("%q: name objects of one kind, either as KIND NAME… or as KIND/NAME…", arg)}
		}
		if !apart {
			a.kind = r.Kind
		}
		a.names = append(a.names, r.Name)
	}
	return a, nil
}

// exampleOf is the first example of a command's help, or one of the commands that have none: describe and edit.
func exampleOf(cmd *cobra.Command) string {
	first, _, _ := strings.Cut(strings.TrimSpace(cmd.Example), "\n")
	if first == "" {
		return cmd.CommandPath() + " sandbox web"
	}
	return first
}

// oneName refuses arguments that do not name exactly one object.
func (a objectArgs) oneName(cmd *cobra.Command) error {
	if len(a.names) != 1 {
		return &usageError{fmt.Errorf("%s takes a KIND and one NAME; see %s --help", cmd.Name(), cmd.CommandPath())}
	}
	return nil
}

// workspaceObjects are a workspace's objects of the kind that a command is about.
type workspaceObjects struct {
	*object.Client
	kind object.Kind
	// namespace is the one that is meant; it stays empty for kinds without.
	namespace string
}

// objects connects to the workspace without a kind.
func (s *target) objects(cmd *cobra.Command) (*object.Client, string, error) {
	if cmd.Flags().Changed("resource") || cmd.Flags().Changed("component") {
		return nil, "", &usageError{fmt.Errorf("%s takes the kind as an argument, and neither --resource nor --component; see %s --help", cmd.Name(), cmd.CommandPath())}
	}
	cfg, namespace, err := s.workspace()
	if err != nil {
		return nil, "", err
	}
	cfg.WarningHandler = rest.NewWarningWriter(cmd.ErrOrStderr(), rest.WarningWriterOptions{Deduplicate: true})
	c, err := object.New(cfg)
	return c, namespace, err
}

// objectsOf connects to the workspace and finds the kind that a word means. From here on, errors are explained
// with that kind.
func (s *target) objectsOf(ctx context.Context, cmd *cobra.Command, word string) (*workspaceObjects, error) {
	c, namespace, err := s.objects(cmd)
	if err != nil {
		return nil, err
	}
	k, err := c.Kind(ctx, word)
	if err != nil {
		return nil, unknownKind(word, err)
	}
	s.kindFound, s.asArgument = k.Resource, true
	w := &workspaceObjects{Client: c, kind: k}
	if k.Namespaced {
		w.namespace = namespace
	}
	return w, nil
}

// unknownKind adds to an unknown kind those that are similar.
func unknownKind(word string, err error) error {
	var unknown *object.UnknownKindError
	if !errors.As(err, &unknown) {
		return err
	}
	var words []string
	for _, k := range unknown.Kinds {
		words = append(words, k.Resource.Resource, k.Singular)
	}
	if found := similar(strings.ToLower(word), words); len(found) > 0 {
		return fmt.Errorf("%w; did you mean %s?", err, found[0])
	}
	return err
}
