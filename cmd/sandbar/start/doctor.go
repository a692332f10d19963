// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package start

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sandbar-dev/sandbar/client/doctor"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
	"github.com/sandbar-dev/sandbar/pkg/termsafe"
)

func newDoctorCommand(s *target) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check the way from the kubeconfig to your sandboxes, and say what to do where it ends",
		Long: `Check the way from the kubeconfig to your sandboxes, and say what to do where it ends: the kubeconfig,
the server, its certificate, your credential, the workspace, the binding to the provider, the data
plane, and your rights. It changes nothing, and sends no credential to a data plane.

It exits with 1 if a check fails, and with 0 if there are only warnings.`,
		Args: cli.Named(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "" && output != "json" {
				return &cli.UsageError{Err: fmt.Errorf("-o %q is not a format: leave it out, or use json", output)}
			}
			resource, err := s.Meant()
			if err != nil {
				return err
			}
			store, err := s.TrustStore()
			if err != nil {
				return err
			}
			checks := doctor.Examine(cmd.Context(), doctor.Options{Config: s.Workspace, Trust: store, Resource: resource})
			if err := cmd.Context().Err(); err != nil {
				return err
			}
			if output == "json" {
				err = encodeChecks(cmd.OutOrStdout(), checks)
			} else {
				printChecks(cmd.OutOrStdout(), checks)
			}
			if err != nil {
				return err
			}
			if slices.ContainsFunc(checks, func(c doctor.Check) bool { return c.State == doctor.Failed }) {
				return &cli.ExitError{Code: cli.ExitFailure} // the checks say the rest
			}
			return nil
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "format: json, or lines for people if empty")
	return cmd
}

// printChecks writes a line per check, and its remedy below.
func printChecks(out io.Writer, checks []doctor.Check) {
	for _, c := range checks {
		fmt.Fprintf(out, "%-8s %-11s %s\n", c.State, c.Name, termsafe.Line(c.Detail))
		if remedy := remedyOf(c); remedy != "" {
			fmt.Fprintf(out, "%-20s %s\n", "", remedy)
		}
	}
}

// encodeChecks writes the checks for programs.
func encodeChecks(out io.Writer, checks []doctor.Check) error {
	type row struct {
		doctor.Check
		Remedy string `json:"remedy,omitempty"`
	}
	rows := make([]row, 0, len(checks))
	for _, c := range checks {
		rows = append(rows, row{c, remedyOf(c)})
	}
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(map[string]any{"checks": rows}); err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	return nil
}

// remedyOf is what a person does about a problem; empty if there is none.
func remedyOf(c doctor.Check) string {
	text, ok := remedies[c.Problem]
	if !ok {
		return ""
	}
	if strings.Contains(text, "%s") {
		return fmt.Sprintf(text, termsafe.Line(c.Subject))
	}
	return text
}

var remedies = map[doctor.Problem]string{
	doctor.NoKubeconfig:      "Make one from your workspace's URL and a credential: sandbar login URL",
	doctor.NotAWorkspace:     "Choose another --context, or log in to a workspace: sandbar login %s/clusters/WORKSPACE",
	doctor.Unreachable:       "Check the network, the proxy (HTTPS_PROXY) and the address %s.",
	doctor.Redirects:         "Correct the server's URL in the kubeconfig: sandbar login URL",
	doctor.NotVerified:       "Get the CA of %s from the people who run it: sandbar login URL --certificate-authority FILE",
	doctor.VerificationOff:   "Get the CA of %s from the people who run it: sandbar login URL --certificate-authority FILE",
	doctor.CertificateEnds:   "Tell the people who run %s.",
	doctor.CredentialUnknown: "Log in again: sandbar login %s",
	doctor.NoCredential:      "Log in: sandbar login %s",
	doctor.OnlyCertificate:   "Log in with a token for logs, dev and exec: sandbar login %s --token-file FILE",
	doctor.NoAccess:          "Ask the owner of the workspace for access, or choose another --context.",
	doctor.NoNamespace:       "Name another one with -n, or make it: kubectl create namespace %s",
	doctor.NotBound:          "Bind the provider's kinds: sandbar bind",
	doctor.NotServed:         "Wait until it is: sandbar bind; if it stays so: kubectl describe apibinding %s",
	doctor.ClaimMissing:      "Grant it: sandbar bind; a claim that was rejected: kubectl edit apibinding %s",
	doctor.BindingsHidden:    "Ask the owner of the workspace for the right to list apibindings.apis.kcp.io, to have the data plane checked.",
	doctor.NoDataPlane:       "Ask the people who run the provider for the data plane's URL: sandbar trust URL",
	doctor.NotTrusted:        "Check that it is your provider's, and let it: sandbar trust %s",
	doctor.OtherCA:           "If your provider has changed it: sandbar trust %s",
	doctor.DataPlaneSilent:   "Check the network and the proxy (HTTPS_PROXY), or ask the people who run the provider whether %s runs.",
	doctor.NoRight:           "Ask the owner of the workspace for one of the provider's roles, or name another namespace with -n.",
	doctor.SomeRights:        "If you need them, ask the owner of the workspace for one of the provider's roles.",
	doctor.Unknown:           "Run it again; if it stays so, the message is for the people who run kcp.",
}
