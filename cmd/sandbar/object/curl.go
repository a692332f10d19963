// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sandbar-dev/sandbar/client/object"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
	"github.com/sandbar-dev/sandbar/pkg/termsafe"
)

func newCurlCommand(s *target) *cobra.Command {
	return &cobra.Command{
		Use:   "curl [KIND/]NAME [URL|PATH] [-- CURL-ARGUMENT…]",
		Short: "Send a request with curl that is led to the copies of a Sandbox",
		Long: `Send a request with curl that carries the routing key of a Sandbox with workloads, so that it is led to the copies.

Without a URL it goes to the first of the addresses that the status has, and a PATH is one of that host. Arguments behind -- are
curl's. NAME is that of a Sandbox; sandboxroute/NAME and sandboxgroup/NAME work too, the latter with a URL.

It exits with curl's exit code, and with 127 if curl is not installed.`,
		Example: `  sandbar curl try
  sandbar curl try /api/cart -- -sS --fail -X POST -d '{"item": 1}'
  sandbar curl try https://shop.example.com/ -- --connect-to ::10.0.0.7:8443`,
		Args: func(cmd *cobra.Command, args []string) error {
			own := len(args)
			if at := cmd.ArgsLenAtDash(); at >= 0 {
				own = at
			}
			if own < 1 || own > 2 {
				return &cli.UsageError{Err: fmt.Errorf("curl takes NAME and one URL or PATH; arguments of curl come behind --; see %s --help", cmd.CommandPath())}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return s.curl(cmd, args) },
	}
}

func (s *target) curl(cmd *cobra.Command, args []string) error {
	var more []string
	if at := cmd.ArgsLenAtDash(); at >= 0 {
		args, more = args[:at], args[at:]
	}
	address := ""
	if len(args) > 1 {
		address = args[1]
	}
	obj, err := s.ofASandbox(cmd, args[0])
	if err != nil {
		return err
	}
	routing, err := object.RoutingOf(obj)
	if err != nil {
		return err
	}
	at, err := routing.At(address)
	if err != nil {
		return &cli.UsageError{Err: errors.New(termsafe.Line(err.Error()))}
	}
	if c := routing.Attached; c != nil && c.Status != metav1.ConditionTrue {
		fmt.Fprintf(cmd.ErrOrStderr(), "Requests may go to the environment: Attached is %s, %s: %s\n", c.Status, c.Reason, termsafe.Line(c.Message))
	}
	return runCurl(cmd, append([]string{"--header", routing.Header + ": " + routing.Value, "--url", at}, more...))
}

// ofASandbox reads an object that an argument names: a Sandbox, unless a kind is written before it.
func (s *target) ofASandbox(cmd *cobra.Command, argument string) (*unstructured.Unstructured, error) {
	r, err := object.ParseReference(argument)
	if err != nil {
		return nil, err
	}
	w, err := s.ObjectsOf(cmd.Context(), cmd, cmp.Or(r.Kind, "sandboxes"))
	if err != nil {
		return nil, err
	}
	s.Name = r.Name
	list, err := w.Get(cmd.Context(), w.Of, w.Namespace, r.Name, false)
	if err != nil {
		return nil, err
	}
	return list.Items[0].Unstructured, nil
}

// runCurl runs the person's curl, whose exit code becomes the command's. An interrupt is curl's.
func runCurl(cmd *cobra.Command, args []string) error {
	path, err := exec.LookPath("curl")
	if err != nil {
		return &cli.ExecError{Code: 127, Err: errors.New("curl is not installed, or not in PATH")}
	}
	program := exec.CommandContext(context.WithoutCancel(cmd.Context()), path, args...)
	program.Stdin, program.Stdout, program.Stderr = cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()
	err = program.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() > 0 {
		return &cli.ExitError{Code: exit.ExitCode()}
	}
	if err != nil {
		return fmt.Errorf("running curl: %w", err)
	}
	return nil
}
