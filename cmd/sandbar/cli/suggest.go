// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"strings"

	"github.com/spf13/cobra"
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

// DidYouMean is the question after an error, or nothing if no word is similar.
func DidYouMean(word, prefix string, words []string) string {
	found := similar(word, words)
	if len(found) == 0 || word == "" {
		return ""
	}
	return "; did you mean " + prefix + strings.Join(found, " or "+prefix) + "?"
}
