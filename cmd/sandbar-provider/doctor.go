// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sandbar-dev/sandbar/install"
	"github.com/sandbar-dev/sandbar/install/doctor"
	"github.com/sandbar-dev/sandbar/pkg/termsafe"
)

// errUnwell ends doctor when a check failed: the checks have said the rest.
var errUnwell = errors.New("a check failed")

type doctorOptions struct {
	kcpKubeconfig, runtimeKubeconfig string
	output                           string
	doctor.Options
}

func (o *doctorOptions) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.kcpKubeconfig, "kcp-kubeconfig", "", "kubeconfig of an administrator of the provider workspace (required)")
	fs.StringVar(&o.runtimeKubeconfig, "runtime-kubeconfig", "", "kubeconfig of an administrator of the runtime cluster (required)")
	fs.StringVar(&o.Workspace, "workspace", "root:sandbar", "path of the provider workspace")
	fs.StringVar(&o.ExportName, "export-name", "sandbar.dev", "name of the APIExport that tenants bind")
	fs.StringVar(&o.RuntimeName, "runtime-name", "", "name of the provider on the runtime cluster, as for init")
	fs.StringVar(&o.KroServiceAccount, "kro-service-account", install.DefaultKroServiceAccount, "NAMESPACE/NAME of the ServiceAccount that kro runs as, or empty, as for init")
	fs.StringVar(&o.IdentityDir, "identities", "", "folder that init --out wrote, to have the tokens in it looked at")
	fs.DurationVar(&o.Timeout, "timeout", 30*time.Second, "how long each check may take")
	fs.StringVarP(&o.output, "output", "o", "", "format: json, or lines for people if empty")
}

func newDoctorCommand() *cobra.Command {
	var opts doctorOptions
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check a provider from kcp to the images of its pods, and say what to do about what is wrong",
		Long: `Check a provider from kcp to the images of its pods, and say what to do about what is wrong. It needs the
administrator's kubeconfigs that init needs, and changes nothing.

It exits with 1 if a check fails, and with 0 if there are only warnings.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := opts.load(); err != nil {
				return err
			}
			findings, err := doctor.Examine(cmd.Context(), opts.Options)
			if err != nil {
				return err
			}
			return report(cmd.OutOrStdout(), findings, opts.output == "json")
		},
	}
	opts.addFlags(cmd.Flags())
	return cmd
}

// load checks the flags and reads the kubeconfigs.
func (o *doctorOptions) load() error {
	if o.output != "" && o.output != "json" {
		return fmt.Errorf("-o %q is not a format: leave it out, or use json", o.output)
	}
	if o.kcpKubeconfig == "" || o.runtimeKubeconfig == "" {
		return errors.New("--kcp-kubeconfig and --runtime-kubeconfig are required: those of init")
	}
	if err := install.CheckServiceAccount(o.KroServiceAccount); err != nil {
		return fmt.Errorf("--kro-service-account: %w", err)
	}
	var err error
	o.KCP, o.Runtime, err = administrators(o.kcpKubeconfig, o.runtimeKubeconfig)
	return err
}

// report writes the findings. Its error is errUnwell if a check failed.
func report(out io.Writer, findings []doctor.Finding, forPrograms bool) error {
	if forPrograms {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(map[string]any{"findings": findings}); err != nil {
			return fmt.Errorf("writing: %w", err)
		}
	} else {
		printFindings(out, findings)
	}
	if slices.ContainsFunc(findings, func(f doctor.Finding) bool { return f.State == doctor.Failed }) {
		return errUnwell
	}
	return nil
}

// printFindings writes a line per finding, and its remedy below.
func printFindings(out io.Writer, findings []doctor.Finding) {
	for _, f := range findings {
		fmt.Fprintf(out, "%-8s %-13s %s\n", f.State, f.Check, termsafe.Line(f.Detail))
		if f.Remedy != "" {
			fmt.Fprintf(out, "%-22s %s\n", "", termsafe.Line(f.Remedy))
		}
	}
}
