// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sandbar-dev/sandbar/client"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
)

func newRenewCommand(s *target) *cobra.Command {
	var opts client.RenewOptions
	cmd := &cobra.Command{
		Use:   "renew [KIND/]NAME",
		Short: "Keep a sandbox from sleeping or ending: count it as used, and move its shutdown time",
		Args:  cli.Named("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			i, err := s.Instance(cmd.Context(), args[0], "renew")
			if err != nil {
				return err
			}
			if end, _, _ := unstructured.NestedString(i.Object.Object, "spec", "lifecycle", "shutdownTime"); opts.Extend != 0 && end == "" {
				return &cli.UsageError{Err: fmt.Errorf("%s has no spec.lifecycle.shutdownTime, so it does not end by itself and --extend has nothing to move: leave --extend out, or set a shutdownTime first", args[0])}
			}
			renewal, err := i.Renew(cmd.Context(), opts)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "%s %s.\n", args[0], Renewed(renewal))
			return nil
		},
	}
	cmd.Flags().DurationVar(&opts.Extend, "extend", 0, "by how much to move the shutdown time, such as 2h; one that has passed counts from now")
	return cmd
}

// Renewed says what a renewed sandbox says of its life.
func Renewed(r *client.Renewal) string {
	text := "was used at " + r.LastActive.Local().Format(time.DateTime)
	if !r.Shutdown.IsZero() {
		text += " and ends at " + r.Shutdown.Local().Format(time.DateTime)
	}
	return text
}
