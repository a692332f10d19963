// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	kcpapisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	kcpapisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	krov1alpha1 "github.com/kubernetes-sigs/kro/api/v1alpha1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/install"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// checkTimeout bounds each check, unless the options have another bound.
const checkTimeout = 30 * time.Second

// State is the outcome of a check.
type State string

// The outcomes. A warning is something that works and should not be so, or that could not be looked at.
const (
	OK      State = "ok"
	Warning State = "warning"
	Failed  State = "failed"
	Skipped State = "skipped"
)

// Finding is one thing that was looked at.
type Finding struct {
	// Check is one of [Checks].
	Check  string `json:"check"`
	State  State  `json:"state"`
	Detail string `json:"detail"`
	// Remedy is what to do; empty if there is nothing to do, or if Detail says it.
	Remedy string `json:"remedy,omitempty"`
}

// Options say which provider is examined.
type Options struct {
	// KCP has an administrator's rights in the provider workspace. A path /clusters/… in its host is ignored.
	KCP *rest.Config
	// Runtime has an administrator's rights on the runtime cluster.
	Runtime *rest.Config
	// Workspace is the path of the provider workspace, and ExportName the name of its APIExport.
	Workspace, ExportName string
	// RuntimeName is the provider's name on the runtime cluster, as for init; empty for the one without.
	RuntimeName string
	// KroServiceAccount is the ServiceAccount that kro runs as, as namespace/name; empty as for init.
	KroServiceAccount string
	// IdentityDir is the folder with the kubeconfigs that init wrote; empty if they are not here.
	IdentityDir string
	// Timeout is how long each check may take; 30 s if it is zero.
	Timeout time.Duration
}

// examination is one run.
type examination struct {
	Options
	kcp, runtime client.Client
	// names are those of RuntimeName.
	names    placement.Names
	provider *sandbarv1alpha1.InfrastructureProvider
	// kro is what is wrong with kro on the runtime cluster, and kroVersion its version as far as it tells.
	kro        error
	kroVersion string

	findings []Finding
}

// check is a step. It runs if none of those that it needs failed.
type check struct {
	name  string
	needs []string
	run   func(*examination, context.Context) []Finding
}

// checks are in the order in which the parts of a provider need each other.
var checks = []check{
	{"kcp", nil, (*examination).checkKCP},
	{"runtime", nil, (*examination).checkRuntime},
	{"clocks", []string{"kcp", "runtime"}, (*examination).checkClocks},
	{"provider", []string{"kcp"}, (*examination).checkProvider},
	{"installed", []string{"provider", "runtime"}, (*examination).checkInstalled},
	{"identities", []string{"kcp", "runtime"}, (*examination).checkIdentities},
	{"kro", []string{"runtime"}, (*examination).checkKro},
	{"controllers", []string{"provider", "runtime"}, (*examination).checkControllers},
	{"conditions", []string{"provider", "controllers"}, (*examination).checkConditions},
	{"export", []string{"kcp"}, (*examination).checkExport},
	{"bindings", []string{"export"}, (*examination).checkBindings},
	{"templates", []string{"provider"}, (*examination).checkTemplates},
	{"baselines", []string{"provider"}, (*examination).checkBaselines},
	{"replicas", []string{"runtime"}, (*examination).checkReplicas},
	{"data plane", []string{"provider"}, (*examination).checkDataPlane},
	{"previews", []string{"provider", "data plane"}, (*examination).checkPreviews},
	{"gateway", []string{"provider", "runtime"}, (*examination).checkGateway},
	{"routes", []string{"provider", "runtime"}, (*examination).checkBaselineGateways},
	{"interceptions", []string{"provider", "runtime"}, (*examination).checkInterceptions},
	{"storage", []string{"runtime"}, (*examination).checkStorage},
	{"images", []string{"provider", "runtime"}, (*examination).checkImages},
}

// Checks returns the names of the checks, in their order.
func Checks() []string {
	names := make([]string, 0, len(checks))
	for _, c := range checks {
		names = append(names, c.name)
	}
	return names
}

// Examine makes the checks. Its error is one of the options', or says that the context ended; then some
// findings are missing.
func Examine(ctx context.Context, opts Options) ([]Finding, error) {
	opts.Timeout = cmp.Or(opts.Timeout, checkTimeout)
	e := &examination{Options: opts}
	var err error
	if e.names, err = placement.NamesOf(opts.RuntimeName); err != nil {
		return nil, fmt.Errorf("the provider's name on the runtime cluster: %w", err)
	}
	e.KCP, e.Runtime = unlimited(install.WorkspaceConfig(opts.KCP, opts.Workspace)), unlimited(opts.Runtime)
	scheme, err := kinds()
	if err != nil {
		return nil, err
	}
	if e.kcp, err = client.New(e.KCP, client.Options{Scheme: scheme}); err != nil {
		return nil, fmt.Errorf("connecting to kcp: %w", err)
	}
	if e.runtime, err = client.New(e.Runtime, client.Options{Scheme: scheme}); err != nil {
		return nil, fmt.Errorf("connecting to the runtime cluster: %w", err)
	}
	for _, c := range checks {
		if err := ctx.Err(); err != nil {
			return e.findings, fmt.Errorf("ended before all checks were made: %w", err)
		}
		e.findings = append(e.findings, e.make(ctx, c)...)
	}
	return e.findings, nil
}

// kinds are those that the checks read.
func kinds() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, sandbarv1alpha1.AddToScheme, kcpapisv1alpha1.AddToScheme, kcpapisv1alpha2.AddToScheme, krov1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("registering kinds: %w", err)
		}
	}
	return scheme, nil
}

// make runs one check within its time.
func (e *examination) make(ctx context.Context, c check) []Finding {
	if missing := e.failed(c.needs); missing != "" {
		return []Finding{{Check: c.name, State: Skipped, Detail: "needs the check " + missing}}
	}
	ctx, cancel := context.WithTimeout(ctx, e.Timeout)
	defer cancel()
	found := c.run(e, ctx)
	if ctx.Err() != nil && !slices.ContainsFunc(found, func(f Finding) bool { return f.State == Failed }) {
		found = append(found, failure("", "there is no answer"))
	}
	for i := range found {
		found[i].Check = c.name
		if found[i].State == Failed && ctx.Err() != nil {
			found[i].Detail = fmt.Sprintf("not done within %s (--timeout): %s", e.Timeout, found[i].Detail)
		}
	}
	return found
}

// failed returns the first of some checks that failed or was skipped because of one that did; empty if none.
func (e *examination) failed(needs []string) string {
	for _, need := range needs {
		if slices.ContainsFunc(e.findings, func(f Finding) bool {
			return f.Check == need && (f.State == Failed || f.State == Skipped)
		}) {
			return need
		}
	}
	return ""
}

// unlimited is a configuration without a limit on this side: there are few requests.
func unlimited(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.QPS = -1
	return cfg
}

func passed(format string, args ...any) Finding {
	return Finding{State: OK, Detail: fmt.Sprintf(format, args...)}
}

func skipped(detail string) Finding {
	return Finding{State: Skipped, Detail: detail}
}

func warning(remedy, format string, args ...any) Finding {
	return Finding{State: Warning, Detail: fmt.Sprintf(format, args...), Remedy: remedy}
}

func failure(remedy, format string, args ...any) Finding {
	return Finding{State: Failed, Detail: fmt.Sprintf(format, args...), Remedy: remedy}
}

// one is a check with a single finding.
func one(f Finding) []Finding { return []Finding{f} }
