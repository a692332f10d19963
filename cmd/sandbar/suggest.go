// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// similar returns the words that a person may have meant by one that is not there. cobra compares them, as it
// compares the names of commands.
func similar(word string, words []string) []string {
	all := &cobra.Command{SuggestionsMinimumDistance: 2}
	if len(word) < 3 {
		all.SuggestionsMinimumDistance = 1 // else every short word is similar to every other one
	}
	for _, w := range words {
		all.AddCommand(&cobra.Command{Use: w, Run: func(*cobra.Command, []string) {}})
	}
	return all.SuggestionsFor(word)
}

// didYouMean is the question after an error, or nothing if no word is similar.
func didYouMean(word, prefix string, words []string) string {
	found := similar(word, words)
	if len(found) == 0 || word == "" {
		return ""
	}
	return "; did you mean " + prefix + strings.Join(found, " or "+prefix) + "?"
}

// knownCommand refuses a word after sandbar that is not a command.
func knownCommand(root *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return &usageError{fmt.Errorf("there is no command %q%s; see %s --help", args[0], didYouMean(args[0], "", names), root.CommandPath())}
}

// knownTopic refuses a word after sandbar help that is not a command.
func knownTopic(help *cobra.Command, args []string) error {
	found, rest, err := help.Root().Find(args)
	if err != nil || found.HasSubCommands() {
		return knownCommand(found, rest)
	}
	return nil
}

// unknownFlag explains a flag that a command does not have; it returns nil for another error.
func unknownFlag(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return nil
	}
	// The flags of a command that does not exist are not those of sandbar itself.
	if !cmd.HasParent() && cmd.Flags().NArg() > 0 {
		return knownCommand(cmd, cmd.Flags().Args())
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	if unknown.GetSpecifiedShortnames() != "" {
		return nil
	}
	return fmt.Errorf("%w%s", err, didYouMean(unknown.GetSpecifiedName(), "--", names))
}
