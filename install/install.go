// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package install prepares a provider workspace in kcp and a runtime cluster for Sandbar, with
// an administrator's rights in both: kinds, export, policies, narrow identities, the operator's
// configuration and the built-in Templates. Whatever runs later does so with the identities
// that it leaves. It can be run again at any time and changes only what differs.
package install

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/platform"
	"github.com/sandbar-dev/sandbar/templates"
)

// Options say what to prepare.
type Options struct {
	// KCP has an administrator's rights in the provider workspace, or in the one above it when
	// the workspace is to be made. A path /clusters/… in its host is ignored.
	KCP *rest.Config
	// Runtime has an administrator's rights on the runtime cluster.
	Runtime *rest.Config
	// Workspace is the path of the provider workspace, for example "root:sandbar". It is made
	// when it is missing, and those above it too.
	Workspace string
	// ExportName is the name of the APIExport.
	ExportName string
	// RuntimeName is the provider's name on the runtime cluster, which it needs where another provider is there
	// already: placement.NamesOf says which names there are. Empty, the default, is for the only one.
	RuntimeName string
	// Provider is the spec of the InfrastructureProvider.
	Provider sandbarv1alpha1.InfrastructureProviderSpec
	// Templates are the names of the built-in Templates to apply.
	Templates []string
	// KroServiceAccount is the ServiceAccount on the runtime cluster that kro runs as, as
	// namespace/name; what it writes is kept within placements. Empty leaves kro to its rights.
	KroServiceAccount string
	// TokenLifetime is how long the tokens of the identities last, from init and from each
	// renewal. Defaults to DefaultTokenLifetime.
	TokenLifetime time.Duration
	// OutDir is where the kubeconfigs of the identities are written; empty means nowhere.
	OutDir string
	// DryRun asks the servers what would happen and changes nothing.
	DryRun bool
	// Timeout bounds each wait: for a workspace, a CRD, a token. Defaults to 2 minutes.
	Timeout time.Duration
	// Progress is told, in a line of prose, what is being done. Nil means nobody.
	Progress func(line string)

	// names are those of RuntimeName.
	names placement.Names
	// provider is the logical cluster of the provider workspace; empty in a dry run without one.
	provider string
	// proxyImage is that of proxies; empty if the operator has set none.
	proxyImage string
}

// Names of the files in Options.OutDir.
const (
	// KCPKubeconfig is of sandbar-provider controllers in the provider workspace.
	KCPKubeconfig = "kcp.kubeconfig"
	// KCPServeKubeconfig is of sandbar-provider serve in the provider workspace.
	KCPServeKubeconfig = "kcp-serve.kubeconfig"
	// ControllersKubeconfig is of sandbar-provider controllers on the runtime cluster.
	ControllersKubeconfig = "runtime-controllers.kubeconfig"
	// ServeKubeconfig is of sandbar-provider serve on the runtime cluster.
	ServeKubeconfig = "runtime-serve.kubeconfig"
)

const defaultTimeout = 2 * time.Minute

const (
	// DefaultTokenLifetime outlasts a long weekend on which nothing runs that renews.
	DefaultTokenLifetime = 7 * 24 * time.Hour
	// MinTokenLifetime is the least that API servers give, with room to renew.
	MinTokenLifetime = time.Hour
	// DefaultKroServiceAccount is the one of kro's chart.
	DefaultKroServiceAccount = "kro-system/kro"
)

// Init prepares both sides. Whether the runtime cluster is fit is found out before anything is
// changed. The report tells of everything that was looked at, also when there is an error.
//
// It does not wait for the Templates to become Ready: that is the work of the controllers, which
// may not run yet.
func Init(ctx context.Context, opts Options) (Report, error) {
	var report Report
	if err := opts.complete(); err != nil {
		return report, err
	}
	found, err := checkRuntime(ctx, opts)
	if err != nil {
		return report, err
	}
	kcp, err := prepareKCP(ctx, opts, found, &report)
	if err != nil {
		return report, fmt.Errorf("preparing workspace %s: %w", opts.Workspace, err)
	}
	opts.provider = kcp.opts.provider
	level, err := podSecurity(ctx, kcp)
	if err != nil {
		return report, err
	}
	if opts.proxyImage, err = proxyImage(ctx, kcp); err != nil {
		return report, err
	}
	rt, err := prepareRuntime(ctx, opts, level, &report)
	if err != nil {
		return report, fmt.Errorf("preparing the runtime cluster: %w", err)
	}
	if opts.OutDir != "" && !opts.DryRun {
		if err := writeIdentities(ctx, opts, kcp, rt, &report); err != nil {
			return report, fmt.Errorf("writing the kubeconfigs: %w", err)
		}
	}
	for _, side := range []*applier{kcp, rt} {
		if err := side.removeLegacyTokens(ctx); err != nil {
			return report, err
		}
	}
	return report, nil
}

func (o *Options) complete() error {
	o.Timeout = cmp.Or(o.Timeout, defaultTimeout)
	o.TokenLifetime = cmp.Or(o.TokenLifetime, DefaultTokenLifetime)
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	if o.KCP == nil || o.Runtime == nil {
		return errors.New("both kcp and the runtime cluster are needed")
	}
	if !validWorkspace(o.Workspace) {
		return fmt.Errorf("the workspace %q is not a path such as root:sandbar", o.Workspace)
	}
	if problems := validation.IsDNS1123Subdomain(o.ExportName); len(problems) > 0 {
		return fmt.Errorf("the export's name %q is not valid: %s", o.ExportName, strings.Join(problems, ", "))
	}
	var err error
	if o.names, err = placement.NamesOf(o.RuntimeName); err != nil {
		return fmt.Errorf("the provider's name on the runtime cluster: %w", err)
	}
	if o.TokenLifetime < MinTokenLifetime {
		return fmt.Errorf("the lifetime of tokens, %s, must be %s at least: API servers give no less", o.TokenLifetime, MinTokenLifetime)
	}
	if err := CheckServiceAccount(o.KroServiceAccount); err != nil {
		return fmt.Errorf("the ServiceAccount of kro: %w", err)
	}
	// The API servers check these as well, but after half of the objects are there.
	if err := CheckDataPlaneURL(o.Provider.DataPlane.URL); err != nil {
		return fmt.Errorf("the URL of the data plane: %w", err)
	}
	if err := CheckPreviewDomain(o.Provider.DataPlane.PreviewDomain, o.Provider.DataPlane.URL); err != nil {
		return fmt.Errorf("the preview domain: %w", err)
	}
	if err := CheckImages(o.Provider.Images); err != nil {
		return fmt.Errorf("the images: %w", err)
	}
	for _, name := range o.Templates {
		if !slices.Contains(templates.Names(), name) {
			return fmt.Errorf("%w: %q (there are: %s)", templates.ErrUnknown, name, strings.Join(templates.Names(), ", "))
		}
	}
	return nil
}

func validWorkspace(path string) bool {
	segments := strings.Split(path, ":")
	return len(segments) > 1 && segments[0] == "root" && !slices.ContainsFunc(segments, func(s string) bool {
		return len(validation.IsDNS1123Label(s)) > 0
	})
}

// foundRuntime is what the runtime cluster has that settings and Templates go by.
type foundRuntime struct {
	// gateway is true if it serves the Gateway API.
	gateway bool
	dns     foundDNS
}

// checkRuntime finds out whether the runtime cluster is fit, and what it has.
func checkRuntime(ctx context.Context, opts Options) (found foundRuntime, err error) {
	inspector, err := platform.NewInspector(opts.Runtime)
	if err != nil {
		return found, err
	}
	versions, err := inspector.Inspect(ctx)
	if err != nil {
		return found, err
	}
	kro := versions.KroVersion
	if kro == "" {
		kro = "of an API new enough"
	}
	opts.Progress(fmt.Sprintf("runtime cluster: Kubernetes %s, kro %s", versions.KubernetesVersion, kro))
	if found.gateway, err = inspector.HasGateway(); err != nil {
		return found, err
	}
	if found.dns, err = findDNS(ctx, opts.Runtime); err != nil {
		return found, fmt.Errorf("looking for the DNS of the runtime cluster: %w", err)
	}
	return found, nil
}

// prepareKCP makes the workspace and applies everything in it. The options of the applier have its logical cluster.
func prepareKCP(ctx context.Context, opts Options, found foundRuntime, report *Report) (*applier, error) {
	exists, err := ensureWorkspace(ctx, opts, report)
	if err != nil {
		return nil, err
	}
	a, err := newApplier("kcp", WorkspaceConfig(opts.KCP, opts.Workspace), opts, report)
	if err != nil {
		return nil, err
	}
	a.absent = !exists
	if opts.provider, err = a.logicalCluster(ctx); err != nil {
		return nil, err
	}
	a.opts.provider = opts.provider
	dns, said, err := settleDNS(ctx, a, found.dns)
	if err != nil {
		return nil, err
	}
	report.Notes = append(report.Notes, said)
	opts.Provider.Isolation.Egress.DNS = dns
	objects, err := kcpObjects(opts, found.gateway)
	if err != nil {
		return nil, err
	}
	return a, a.applyAll(ctx, objects)
}

func prepareRuntime(ctx context.Context, opts Options, level string, report *Report) (*applier, error) {
	a, err := newApplier("runtime", opts.Runtime, opts, report)
	if err != nil {
		return nil, err
	}
	if err := a.checkOwner(ctx); err != nil {
		return nil, err
	}
	if err := a.checkKro(ctx); err != nil {
		return nil, err
	}
	objects, err := runtimeObjects(opts, level)
	if err != nil {
		return nil, err
	}
	if err := a.applyAll(ctx, objects); err != nil {
		return nil, err
	}
	if err := a.removeKroPolicy(ctx); err != nil {
		return nil, err
	}
	return a, a.ensureKeys(ctx)
}

// notThere tells whether an error only says that something, or its kind, does not exist.
func notThere(err error) bool {
	return apierrors.IsNotFound(err) || isNoKind(err)
}
