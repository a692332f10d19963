// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sandbar-dev/sandbar/client"
	"github.com/sandbar-dev/sandbar/pkg/termsafe"
)

// AsksPerson reports whether there is a person to ask: both the question and the answer need a terminal.
func AsksPerson(cmd *cobra.Command) bool {
	keyboard, ok := cmd.InOrStdin().(*os.File)
	return ok && IsTerminal(keyboard) && Terminal(cmd.ErrOrStderr())
}

// Agrees asks a question and reports whether the answer is yes, which nothing but y and yes is. An interrupt ends the wait for
// an answer at once, with the context's error.
func Agrees(cmd *cobra.Command, question string) (bool, error) {
	fmt.Fprintf(cmd.ErrOrStderr(), "%s [y/N] ", question)
	answer, err := lineOf(cmd.Context(), cmd)
	if err != nil {
		fmt.Fprintln(cmd.ErrOrStderr())
		return false, err
	}
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes", nil
}

// lineOf reads a line of the input. A read of a terminal cannot be ended, so it is left to the end of the process.
func lineOf(ctx context.Context, cmd *cobra.Command) (string, error) {
	line := make(chan string, 1)
	go func() {
		text, _ := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
		line <- text
	}()
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case text := <-line:
		return text, nil
	}
}

// Confirmed asks whether a data plane may get the person's token. Nothing but yes is yes.
func Confirmed(cmd *cobra.Command, o client.Offer) bool {
	fmt.Fprintf(cmd.ErrOrStderr(), "The binding %s names the data plane %s.\n", termsafe.Line(o.Binding), termsafe.Line(o.URL))
	allowed, err := Agrees(cmd, "Let it get your token? Check that it is your provider's.")
	return allowed && err == nil
}
