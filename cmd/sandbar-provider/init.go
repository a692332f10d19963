// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/install"
	"github.com/sandbar-dev/sandbar/templates"
)

type initOptions struct {
	kcpKubeconfig     string
	runtimeKubeconfig string
	workspace         string
	exportName        string
	runtimeName       string
	dataPlaneURL      string
	dataPlaneCAFile   string
	previewDomain     string
	images            map[string]string
	providerCIDRs     []string
	baseDomain        string
	gateway           string
	runtimeClassName  string
	templates         []string
	outDir            string
	kroServiceAccount string
	tokenLifetime     time.Duration
	dryRun            bool
	timeout           time.Duration
}

func (o *initOptions) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.kcpKubeconfig, "kcp-kubeconfig", "",
		"kubeconfig of an administrator of the provider workspace, or of the one above it (required)")
	fs.StringVar(&o.runtimeKubeconfig, "runtime-kubeconfig", "",
		"kubeconfig of an administrator of the runtime cluster (required)")
	fs.StringVar(&o.workspace, "workspace", "root:sandbar", "path of the provider workspace; made when it is missing")
	fs.StringVar(&o.exportName, "export-name", "sandbar.dev", "name of the APIExport that tenants bind")
	fs.StringVar(&o.runtimeName, "runtime-name", "",
		"name of this provider on the runtime cluster, for example blue; needed where another provider is there already")
	fs.StringVar(&o.dataPlaneURL, "dataplane-url", "", "public base URL of the data plane, https://… (required)")
	fs.StringVar(&o.dataPlaneCAFile, "dataplane-ca-file", "",
		"PEM bundle with which clients verify the data plane; empty when its certificate is publicly trusted")
	fs.StringVar(&o.previewDomain, "preview-domain", "",
		"domain, with a port if it is not 443, below which the data plane serves previews in browsers; empty for no preview links")
	fs.StringToStringVar(&o.images, "image", nil, "image for graphs as key=reference, for example runner=…; repeatable")
	fs.StringSliceVar(&o.providerCIDRs, "provider-cidr", nil,
		"addresses from which the provider reaches pods when it runs outside the runtime cluster; repeatable")
	fs.StringVar(&o.baseDomain, "base-domain", "", "domain under which previews get host names; needs --gateway")
	fs.StringVar(&o.gateway, "gateway", "", "namespace/name of the Gateway that carries previews; needs --base-domain")
	fs.StringVar(&o.runtimeClassName, "runtime-class", "", "RuntimeClass of sandboxes, for example gvisor")
	fs.StringSliceVar(&o.templates, "templates", []string{"all"},
		"built-in Templates to apply: all, none, or names of "+strings.Join(templates.Names(), ", "))
	fs.StringVar(&o.kroServiceAccount, "kro-service-account", install.DefaultKroServiceAccount,
		"NAMESPACE/NAME of the ServiceAccount that kro runs as: what it writes is kept within placements; empty leaves kro to its rights")
	fs.DurationVar(&o.tokenLifetime, "token-lifetime", install.DefaultTokenLifetime,
		"how long the identities' tokens last; a process that runs renews its own after a third of it, or a day")
	fs.StringVar(&o.outDir, "out", "", "folder for the kubeconfigs of the provider's identities")
	fs.BoolVar(&o.dryRun, "dry-run", false, "tell what would change and change nothing")
	fs.DurationVar(&o.timeout, "timeout", 2*time.Minute, "how long to wait for one thing at most")
}

func newInitCommand() *cobra.Command {
	var opts initOptions
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Prepare a provider workspace and a runtime cluster; can be run again at any time",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := opts.config(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			report, err := install.Init(cmd.Context(), config)
			printReport(cmd.OutOrStdout(), report, opts.dryRun)
			if err != nil {
				return err
			}
			if !opts.dryRun {
				printNext(cmd.ErrOrStderr(), config)
			}
			return nil
		},
	}
	opts.addFlags(cmd.Flags())
	return cmd
}

func (o *initOptions) config(progress io.Writer) (install.Options, error) {
	config := install.Options{
		Workspace: o.workspace, ExportName: o.exportName, RuntimeName: o.runtimeName, OutDir: o.outDir, KroServiceAccount: o.kroServiceAccount, TokenLifetime: o.tokenLifetime, DryRun: o.dryRun, Timeout: o.timeout,
		Progress: func(line string) { fmt.Fprintln(progress, line) },
	}
	if o.kcpKubeconfig == "" || o.runtimeKubeconfig == "" {
		return config, errors.New("--kcp-kubeconfig and --runtime-kubeconfig are required")
	}
	var err error
	if config.KCP, config.Runtime, err = administrators(o.kcpKubeconfig, o.runtimeKubeconfig); err != nil {
		return config, err
	}
	config.Templates = o.templateNames()
	config.Provider, err = o.provider()
	return config, err
}

func (o *initOptions) templateNames() []string {
	if len(o.templates) != 1 {
		return o.templates
	}
	switch o.templates[0] {
	case "all":
		return templates.Names()
	case "none":
		return nil
	}
	return o.templates
}

// provider is the InfrastructureProvider that the flags describe.
func (o *initOptions) provider() (sandbarv1alpha1.InfrastructureProviderSpec, error) {
	spec := sandbarv1alpha1.InfrastructureProviderSpec{
		DataPlane: sandbarv1alpha1.DataPlaneAddress{URL: strings.TrimRight(o.dataPlaneURL, "/"), PreviewDomain: o.previewDomain},
		Images:    o.images,
		Isolation: sandbarv1alpha1.Isolation{RuntimeClassName: o.runtimeClassName, ProviderCIDRs: o.providerCIDRs},
	}
	if o.dataPlaneURL == "" {
		return spec, errors.New("--dataplane-url is required: tenants and their clients are told it")
	}
	if err := install.CheckDataPlaneURL(o.dataPlaneURL); err != nil {
		return spec, fmt.Errorf("--dataplane-url: %w", err)
	}
	if err := install.CheckPreviewDomain(o.previewDomain, o.dataPlaneURL); err != nil {
		return spec, fmt.Errorf("--preview-domain: %w", err)
	}
	if err := install.CheckImages(o.images); err != nil {
		return spec, fmt.Errorf("--image: %w", err)
	}
	if o.dataPlaneCAFile != "" {
		bundle, err := os.ReadFile(o.dataPlaneCAFile)
		if err != nil {
			return spec, fmt.Errorf("reading --dataplane-ca-file: %w", err)
		}
		spec.DataPlane.CABundle = bundle
	}
	if (o.baseDomain == "") != (o.gateway == "") {
		return spec, errors.New("--base-domain and --gateway are needed together: give both, or neither, " +
			"and previews work through the verb proxy")
	}
	if o.gateway != "" {
		namespace, name, ok := strings.Cut(o.gateway, "/")
		if !ok || namespace == "" || name == "" {
			return spec, fmt.Errorf("--gateway %q must be the NAMESPACE/NAME of a Gateway", o.gateway)
		}
		spec.Preview = &sandbarv1alpha1.Preview{
			BaseDomain: o.baseDomain, GatewayRef: &sandbarv1alpha1.GatewayReference{Namespace: namespace, Name: name},
		}
	}
	return spec, nil
}

func printReport(out io.Writer, report install.Report, dryRun bool) {
	if dryRun {
		fmt.Fprintln(out, "DRY RUN: nothing has been changed. Without --dry-run, this would happen:")
	}
	if len(report.Entries) == 0 {
		return
	}
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "WHERE\tKIND\tNAME\tACTION")
	for _, e := range report.Entries {
		action := string(e.Action)
		if dryRun {
			action = wouldBe(e.Action)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", e.Where, e.Kind, e.Name, action)
	}
	_ = table.Flush() // a terminal that is gone has nobody left to tell
	for _, note := range report.Notes {
		fmt.Fprintln(out, note)
	}
}

// wouldBe is an action that was not taken. A line of it that is copied elsewhere says so by itself.
func wouldBe(action install.Action) string {
	if action == install.Unchanged {
		return string(action)
	}
	return "would be " + string(action)
}

// printNext tells what is left to do: for the operator, and for the tenants.
func printNext(out io.Writer, config install.Options) {
	if len(config.Templates) > 0 {
		fmt.Fprintln(out, "Templates become Ready when sandbar-provider controllers runs.")
	}
	fmt.Fprintf(out, "Tenants bind the APIExport %s of %s. Ready-made ClusterRoles for their people (%s): "+
		"sandbar-provider roles | kubectl apply -f -, in the tenant's workspace.\n",
		config.ExportName, config.Workspace, strings.Join(install.TenantRoles(), ", "))
}
