// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package start

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
	"github.com/sandbar-dev/sandbar/pkg/termsafe"
)

func newUntrustCommand(s *target) *cobra.Command {
	return &cobra.Command{
		Use:   "untrust [URL]",
		Short: "Stop a data plane from getting your token; without a URL, list those that may get it",
		Long: `Stop a data plane from getting your token, as sandbar trust let it. Without a URL it lists the data
planes that may get it, of every workspace. What a data plane got before is not taken back: ask the people
who run kcp for another token if you do not trust it any more.`,
		Args: cli.AtMost("URL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			store, err := s.TrustStore()
			if err != nil {
				return err
			}
			planes, err := store.Load()
			if err != nil {
				return err
			}
			var known []string
			for _, p := range planes {
				known = append(known, termsafe.Line(p.URL))
			}
			if len(args) == 0 {
				for _, address := range known {
					fmt.Fprintln(cmd.OutOrStdout(), address)
				}
				if len(known) == 0 {
					fmt.Fprintln(cmd.ErrOrStderr(), "No data plane may get your token.")
				}
				return nil
			}
			removed, err := store.Remove(args[0])
			if err != nil {
				return err
			}
			if !removed {
				if len(known) == 0 {
					known = []string{"no data plane"}
				}
				return fmt.Errorf("%s is not trusted; your token may go to %s", args[0], strings.Join(known, ", "))
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "%s does not get your token any more (%s).\n", strings.TrimRight(args[0], "/"), store.Path)
			return nil
		},
	}
}
