// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/sandbar-dev/sandbar/client/object"
)

// ObjectArgs are the arguments of a command about objects: KIND [NAME…] or KIND/NAME….
type ObjectArgs struct {
	// Kind is a word for the kind, as package object takes it.
	Kind string
	// Names are the names of the objects, and empty for all.
	Names []string
}

// ParseObjectArgs reads the arguments, of which a KIND is the first. It does not ask the workspace.
func ParseObjectArgs(cmd *cobra.Command, args []string) (ObjectArgs, error) {
	if len(args) == 0 || args[0] == "" {
		return ObjectArgs{}, &UsageError{fmt.Errorf("%s needs a KIND, for example: %s; see %s --help", cmd.Name(), exampleOf(cmd), cmd.CommandPath())}
	}
	var a ObjectArgs
	apart := !strings.Contains(args[0], "/")
	if apart {
		a.Kind, args = args[0], args[1:]
	}
	for _, arg := range args {
		r, err := object.ParseReference(arg)
		if err != nil {
			return ObjectArgs{}, err
		}
		if apart != (r.Kind == "") || !apart && a.Kind != "" && a.Kind != r.Kind {
			return ObjectArgs{}, &UsageError{fmt.Errorf("%q: name objects of one kind, either as KIND NAME… or as KIND/NAME…", arg)}
		}
		if !apart {
			a.Kind = r.Kind
		}
		a.Names = append(a.Names, r.Name)
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

// OneName refuses arguments that do not name exactly one object.
func (a ObjectArgs) OneName(cmd *cobra.Command) error {
	if len(a.Names) != 1 {
		return &UsageError{fmt.Errorf("%s takes a KIND and one NAME; see %s --help", cmd.Name(), cmd.CommandPath())}
	}
	return nil
}

// WorkspaceObjects are a workspace's objects of the kind that a command is about.
type WorkspaceObjects struct {
	*object.Client
	// Of is the kind.
	Of object.Kind
	// Namespace is the one that is meant; it stays empty for kinds without.
	Namespace string
}

// Objects connects to the workspace without a kind.
func (s *Target) Objects(cmd *cobra.Command) (*object.Client, string, error) {
	if cmd.Flags().Changed("resource") || cmd.Flags().Changed("component") {
		return nil, "", &UsageError{fmt.Errorf("%s takes the kind as an argument, and neither --resource nor --component; see %s --help", cmd.Name(), cmd.CommandPath())}
	}
	cfg, namespace, err := s.Workspace()
	if err != nil {
		return nil, "", err
	}
	cfg.WarningHandler = rest.NewWarningWriter(cmd.ErrOrStderr(), rest.WarningWriterOptions{Deduplicate: true})
	c, err := object.New(cfg)
	return c, namespace, err
}

// ObjectsOf connects to the workspace and finds the kind that a word means. From here on, errors are explained
// with that kind.
func (s *Target) ObjectsOf(ctx context.Context, cmd *cobra.Command, word string) (*WorkspaceObjects, error) {
	c, namespace, err := s.Objects(cmd)
	if err != nil {
		return nil, err
	}
	k, err := c.Kind(ctx, word)
	if err != nil {
		return nil, UnknownKind(word, err)
	}
	s.KindFound, s.AsArgument = k.Resource, true
	w := &WorkspaceObjects{Client: c, Of: k}
	if k.Namespaced {
		w.Namespace = namespace
	}
	return w, nil
}

// UnknownKind adds to an unknown kind those that are similar.
func UnknownKind(word string, err error) error {
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
