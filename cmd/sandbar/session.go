// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sandbar-dev/sandbar/client"
)

// session is the person's workspace and the instance that a command is about, as the flags say.
type session struct {
	kubeconfig string
	overrides  clientcmd.ConfigOverrides
	resource   string
	component  string
	trustFile  string
}

func (s *session) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&s.kubeconfig, "kubeconfig", "", "kubeconfig that leads to your workspace; as for kubectl, $KUBECONFIG and ~/.kube/config are next")
	flags := clientcmd.RecommendedConfigOverrideFlags("")
	flags.ContextOverrideFlags.Namespace.ShortName = "n"
	for _, f := range []clientcmd.FlagInfo{flags.CurrentContext, flags.ContextOverrideFlags.Namespace, flags.ClusterOverrideFlags.APIServer} {
		f.Description = strings.ToLower(f.Description[:1]) + f.Description[1:]
	}
	flags.CurrentContext.BindStringFlag(fs, &s.overrides.CurrentContext)
	flags.ContextOverrideFlags.Namespace.BindStringFlag(fs, &s.overrides.Context.Namespace)
	flags.ClusterOverrideFlags.APIServer.BindStringFlag(fs, &s.overrides.ClusterInfo.Server)
	fs.StringVar(&s.resource, "resource", client.SandboxRunners.GroupResource().String(),
		"resource of the instance, for kinds of other Templates, for example redis.sandbar.dev")
	fs.StringVar(&s.component, "component", "", "component of the instance whose verb is meant")
	fs.StringVar(&s.trustFile, "trust-file", "", "file that holds the data planes that may get your token; defaults to sandbar/trust.json in your configuration folder")
}

// workspace is the configuration that leads to the workspace, and the namespace.
func (s *session) workspace() (*rest.Config, string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = s.kubeconfig
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &s.overrides)
	cfg, err := loader.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		// client-go's own words tell of a variable that its programs read inside a cluster.
		return nil, "", &usageError{errors.New("there is no kubeconfig that leads to your workspace: pass --kubeconfig or set KUBECONFIG")}
	}
	if err != nil {
		return nil, "", fmt.Errorf("reading the kubeconfig: %w", err)
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, "", fmt.Errorf("reading the kubeconfig: %w", err)
	}
	cfg.UserAgent = "sandbar/" + version
	return cfg, namespace, nil
}

// instance finds the instance of a name, or the component of it that --component names.
func (s *session) instance(ctx context.Context, name string) (*client.Instance, error) {
	i, err := s.find(ctx, name)
	if err != nil {
		return nil, err
	}
	return i.Component(s.component), nil
}

// find finds the instance of a name, with the way to its data plane.
func (s *session) find(ctx context.Context, name string) (*client.Instance, error) {
	cfg, namespace, err := s.workspace()
	if err != nil {
		return nil, err
	}
	resource, err := parseResource(s.resource)
	if err != nil {
		return nil, err
	}
	store, err := s.trustStore()
	if err != nil {
		return nil, err
	}
	trusted, err := store.load()
	if err != nil {
		return nil, err
	}
	c, err := client.New(cfg, trusted...)
	if err != nil {
		return nil, err
	}
	return c.Instance(ctx, resource, namespace, name)
}

// parseResource reads "resource.group" or "resource.version.group".
func parseResource(text string) (schema.GroupVersionResource, error) {
	resource, rest, ok := strings.Cut(text, ".")
	if !ok || resource == "" || rest == "" {
		return schema.GroupVersionResource{}, &usageError{fmt.Errorf("--resource %q is not resource.group, like %s", text, client.SandboxRunners.GroupResource())}
	}
	gvr := client.SandboxRunners
	gvr.Resource, gvr.Group = resource, rest
	if version, group, ok := strings.Cut(rest, "."); ok && isVersion(version) {
		gvr.Version, gvr.Group = version, group
	}
	return gvr, nil
}

// isVersion tells v1, v1alpha1 and v2beta3 from the first label of a group.
func isVersion(s string) bool {
	return len(s) > 1 && s[0] == 'v' && '0' <= s[1] && s[1] <= '9'
}
