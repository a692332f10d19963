// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package doccommands

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

func TestCommandsAreFoundInDocuments(t *testing.T) {
	const document = "Run `tool get x`, not `mytool get x`; `a\\|tool x` and `kubectl tool get`.\n" +
		"```console\n$ tool get a --all   # tool nothing\n$ other $(tool get b -o name) | tool put -f - && tool get c\noutput of tool get\n$ tool init \\\n    --out dir\n```\n" +
		"  ```console\n  $ tool get d\n  ```\n"
	want := []string{"tool get a --all", "tool get b -o name", "tool put -f -", "tool get c", "tool init      --out dir", "tool get d", "tool get x", "tool x"}
	if diff := cmp.Diff(want, commandsOf(document, "tool")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestWhatAProgramDoesNotTakeIsFound(t *testing.T) {
	root := &cobra.Command{Use: "tool"}
	root.PersistentFlags().StringP("namespace", "n", "", "")
	get := &cobra.Command{Use: "get", Run: func(*cobra.Command, []string) {}}
	get.Flags().BoolP("all", "a", false, "")
	root.AddCommand(get)
	for line, want := range map[string]string{
		"get x --all -a -n y --namespace=z": "",
		"get [--all] x…":                    "",
		"get --help":                        "",
		"get -- --none":                     "",
		"get 'x --none'":                    "",
		`get "x --none" --all`:              "",
		"get -":                             "",
		"--help":                            "",
		"help get":                          "",
		"get x --none":                      "tool get has no flag --none",
		"get -x":                            "tool get has no flag -x",
		"gte x":                             `unknown command "gte" for "tool"`,
	} {
		if got := problemOf(root, words(line)); !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}
