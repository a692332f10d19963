// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package catalogue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/openapi"
	kubectlexplain "k8s.io/kubectl/pkg/explain/v2"

	"github.com/sandbar-dev/sandbar/client/object"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
	"github.com/sandbar-dev/sandbar/pkg/termsafe"
)

// plaintext is the format of kubectl explain.
const plaintext = "plaintext"

func newExplainCommand(s *target) *cobra.Command {
	var recursive bool
	cmd := &cobra.Command{
		Use:   "explain KIND[.FIELD…]",
		Short: "Show the fields of a kind, their types and what they mean",
		Long: `Show the fields of a kind, or those below one of its fields, as your workspace describes them: each with its type,
whether it is required, and its description. The elements of a list and the values of a map have no name of their
own: sandbox.status.conditions.reason is the reason of each condition.

--recursive shows the names and types of all fields below, without descriptions.`,
		Example: `  sandbar explain sandboxes
  sandbar explain sandbox.spec.lifecycle
  sandbar explain sandboxes.sandbar.dev.spec --recursive`,
		Args:              cli.Named("KIND[.FIELD…]"),
		RunE:              func(cmd *cobra.Command, args []string) error { return s.explainKind(cmd, args[0], recursive) },
		ValidArgsFunction: s.completeField,
	}
	cmd.Flags().BoolVar(&recursive, "recursive", false, "show the names and types of all fields below")
	return cmd
}

func (s *target) explainKind(cmd *cobra.Command, word string, recursive bool) error {
	if slices.Contains(strings.Split(word, "."), "") || strings.Contains(word, "/") {
		return &cli.UsageError{Err: fmt.Errorf("%q is not a kind with fields: write KIND or KIND.FIELD, for example sandbox.spec.lifecycle", word)}
	}
	w, path, err := s.fieldsOf(cmd, word)
	if err != nil {
		return err
	}
	schema, err := w.Schema(cmd.Context(), w.Of)
	if err != nil {
		return err
	}
	if _, err := schema.Fields(path...); err != nil {
		return unknownField(err)
	}
	var text bytes.Buffer
	document := openAPI{"apis/" + w.Of.Resource.GroupVersion().String(), schema.Document()}
	if err := kubectlexplain.PrintModelDescription(path, &text, document, w.Of.Resource, recursive, plaintext); err != nil {
		return fmt.Errorf("explaining %s: %w", word, err)
	}
	return cli.WriteDocument(cmd.OutOrStdout(), text.Bytes())
}

// fieldsOf connects to the workspace, and finds the kind and the field that a word such as sandbox.spec or
// sandboxes.sandbar.dev.spec means.
func (s *target) fieldsOf(cmd *cobra.Command, word string) (*cli.WorkspaceObjects, []string, error) {
	c, _, err := s.Objects(cmd)
	if err != nil {
		return nil, nil, err
	}
	kind, path, err := splitFields(cmd.Context(), c, word)
	if err != nil {
		return nil, nil, cli.UnknownKind(kind.Name, err)
	}
	s.KindFound, s.AsArgument = kind.Resource, true
	return &cli.WorkspaceObjects{Client: c, Of: kind}, path, nil
}

// splitFields splits a word into a kind, perhaps with its group, and a field. If there is no such kind, the kind that is
// returned has the kind's part of the word as its name.
func splitFields(ctx context.Context, c *object.Client, word string) (object.Kind, []string, error) {
	first, rest, _ := strings.Cut(word, ".")
	kind, err := c.Kind(ctx, first)
	if err != nil {
		return kindOfGroup(ctx, c, first, rest, err)
	}
	group := kind.Resource.Group
	for _, prefix := range []string{group, kind.Resource.Version + "." + group} {
		if below, ok := strings.CutPrefix(rest+".", prefix+"."); ok {
			rest = strings.TrimSuffix(below, ".")
		}
	}
	if rest == "" {
		return kind, nil, nil
	}
	return kind, strings.Split(rest, "."), nil
}

// kindOfGroup finds a kind that only its group leads to. The group is the first words of rest: as many as make one that
// the workspace serves.
func kindOfGroup(ctx context.Context, c *object.Client, first, rest string, unknown error) (object.Kind, []string, error) {
	labels := strings.Split(rest, ".")
	for n := 2; n <= len(labels); n++ {
		kind, err := c.Kind(ctx, first+"."+strings.Join(labels[:n], "."))
		var unbound *object.NotBoundError
		if err == nil {
			return kind, labels[n:], nil
		}
		if !errors.As(err, &unbound) {
			return object.Kind{Name: first}, nil, err
		}
	}
	return object.Kind{Name: first}, nil, unknown
}

// unknownField adds to an unknown field those that are similar.
func unknownField(err error) error {
	var unknown *object.UnknownFieldError
	if !errors.As(err, &unknown) {
		return err
	}
	last := len(unknown.Path) - 1
	above := strings.Join(append(slices.Clone(unknown.Path[:last]), ""), ".")
	return fmt.Errorf("%w%s", err, cli.DidYouMean(unknown.Path[last], above, unknown.Fields))
}

// openAPI is the document of a group and version, as kubectl's package reads it.
type openAPI struct {
	path string
	body []byte
}

// Paths implements openapi.Client.
func (o openAPI) Paths() (map[string]openapi.GroupVersion, error) {
	return map[string]openapi.GroupVersion{o.path: o}, nil
}

// Schema implements openapi.GroupVersion.
func (o openAPI) Schema(string) ([]byte, error) { return o.body, nil }

// ServerRelativeURL implements openapi.GroupVersion.
func (o openAPI) ServerRelativeURL() string { return "/openapi/v3/" + o.path }

// completeField completes KIND and KIND.FIELD….
func (s *target) completeField(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cli.NoFiles
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), cli.CompletionTimeout)
	defer cancel()
	at := strings.LastIndex(word, ".")
	if at < 0 {
		return s.Kinds(ctx, word), cli.NoFiles | cobra.ShellCompDirectiveNoSpace
	}
	c := s.Quiet()
	if c == nil {
		return nil, cli.NoFiles
	}
	kind, path, err := splitFields(ctx, c, word[:at])
	if err != nil {
		return nil, cli.NoFiles
	}
	schema, err := c.Schema(ctx, kind)
	if err != nil {
		return nil, cli.NoFiles
	}
	fields, err := schema.Fields(path...)
	if err != nil {
		return nil, cli.NoFiles
	}
	var found []cobra.Completion
	for _, field := range fields {
		if strings.HasPrefix(field, word[at+1:]) {
			found = append(found, termsafe.Line(word[:at+1]+field))
		}
	}
	return found, cli.NoFiles | cobra.ShellCompDirectiveNoSpace
}
