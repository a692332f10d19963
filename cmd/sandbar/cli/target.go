// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sandbar-dev/sandbar/client"
	"github.com/sandbar-dev/sandbar/client/login"
	"github.com/sandbar-dev/sandbar/client/object"
	"github.com/sandbar-dev/sandbar/client/session"
	"github.com/sandbar-dev/sandbar/pkg/termsafe"
)

// Target is the person's workspace and the instance that a command is about, as the flags say.
type Target struct {
	// version is the program's, which the servers get to know.
	version string
	// Kubeconfig is the file that --kubeconfig names, and Overrides are the flags that choose something else than it does.
	Kubeconfig string
	Overrides  clientcmd.ConfigOverrides
	// InPath is the workspace that --workspace names.
	InPath string
	// Resource is the kind's resource that --resource names, and component the component of --component.
	Resource, component string
	// TrustFile is the file of --trust-file.
	TrustFile string

	// AsArgument reports whether the kind is an argument of the command, and not the flag --resource.
	AsArgument bool
	// KindFound is the resource of the instance's kind once that is known, and empty before.
	KindFound schema.GroupVersionResource
	// Name and UID are those of the instance that was found, and reference is what the person wrote of it.
	Name, UID, reference string
	// Told is what the person was told last of the instance's state, before dev follows it.
	Told string
}

func (s *Target) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&s.Kubeconfig, "kubeconfig", "", "kubeconfig that leads to your workspace; as for kubectl, $KUBECONFIG and ~/.kube/config are next")
	flags := clientcmd.RecommendedConfigOverrideFlags("")
	flags.ContextOverrideFlags.Namespace.ShortName = "n"
	flags.CurrentContext.Description = "context of the kubeconfig to use, instead of its current one"
	flags.ContextOverrideFlags.Namespace.Description = "namespace of the objects, instead of the context's"
	flags.ClusterOverrideFlags.APIServer.Description = "address of your workspace, instead of the context's"
	flags.CurrentContext.BindStringFlag(fs, &s.Overrides.CurrentContext)
	flags.ContextOverrideFlags.Namespace.BindStringFlag(fs, &s.Overrides.Context.Namespace)
	flags.ClusterOverrideFlags.APIServer.BindStringFlag(fs, &s.Overrides.ClusterInfo.Server)
	fs.StringVar(&s.InPath, "workspace", "", "workspace of the same server to use, such as root:team, instead of the context's; $"+workspaceVariable+" is next")
	fs.StringVar(&s.Resource, "resource", "",
		"resource of the instance's kind, for example redis.sandbar.dev: the same as KIND/NAME, for scripts")
	fs.StringVar(&s.component, "component", "", "component of the instance whose verb is meant")
	fs.StringVar(&s.TrustFile, "trust-file", "", "file that holds the data planes that may get your token; defaults to sandbar/trust.json in your configuration folder")
}

// workspaceVariable is the variable of the environment that names the workspace, as --workspace does.
const workspaceVariable = "SANDBAR_WORKSPACE"

// otherWorkspace is the workspace that is meant instead of the context's, and what names it; empty if nothing does.
func (s *Target) otherWorkspace() (path, from string) {
	if s.InPath != "" {
		return s.InPath, "--workspace"
	}
	return os.Getenv(workspaceVariable), "$" + workspaceVariable
}

// address is the one that leads to the workspace, for the server that the kubeconfig names.
func (s *Target) address(server string) (string, error) {
	path, from := s.otherWorkspace()
	if path == "" {
		return server, nil
	}
	address, err := login.InWorkspace(server, path)
	if err != nil {
		return "", &UsageError{fmt.Errorf("%s: %w", from, err)}
	}
	return address, nil
}

// Workspace is the configuration that leads to the workspace, and the namespace.
func (s *Target) Workspace() (*rest.Config, string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = s.Kubeconfig
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &s.Overrides)
	cfg, err := loader.ClientConfig()
	if missing := missingFiles(rules); missing != "" && (err != nil || s.Kubeconfig != "") {
		return nil, "", &UsageError{errors.New(missing)}
	}
	if clientcmd.IsEmptyConfig(err) {
		// client-go's own words tell of a variable that its programs read inside a cluster.
		return nil, "", &UsageError{errors.New("there is no kubeconfig that leads to your workspace: make one with sandbar login URL, pass --kubeconfig or set KUBECONFIG")}
	}
	if err != nil {
		return nil, "", fmt.Errorf("reading the kubeconfig: %w", err)
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, "", fmt.Errorf("reading the kubeconfig: %w", err)
	}
	if cfg.Host, err = s.address(cfg.Host); err != nil {
		return nil, "", err
	}
	cfg.UserAgent = "sandbar/" + s.version
	return client.WithoutRedirects(cfg), namespace, nil
}

// missingFiles names the kubeconfigs that a person named and that are not there; nothing if all are.
// client-go passes over those of $KUBECONFIG.
func missingFiles(rules *clientcmd.ClientConfigLoadingRules) string {
	files, from := filepath.SplitList(os.Getenv(clientcmd.RecommendedConfigPathEnvVar)), "$"+clientcmd.RecommendedConfigPathEnvVar
	if rules.ExplicitPath != "" {
		files, from = []string{rules.ExplicitPath}, "--kubeconfig"
	}
	var missing []string
	for _, file := range files {
		if _, err := os.Stat(file); file != "" && errors.Is(err, fs.ErrNotExist) {
			missing = append(missing, file)
		}
	}
	if len(missing) == 0 {
		return ""
	}
	return fmt.Sprintf("there is no file %s, which %s names: make it with sandbar login URL, or name one that leads to your workspace with --kubeconfig or KUBECONFIG", termsafe.Line(strings.Join(missing, ", ")), from)
}

// credential is the name of the kubeconfig's user that a command acts as; empty if that is not known.
func (s *Target) credential() string {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = s.Kubeconfig
	raw, err := rules.Load()
	if err != nil {
		return ""
	}
	current := raw.Contexts[cmp.Or(s.Overrides.CurrentContext, raw.CurrentContext)]
	if current == nil {
		return ""
	}
	return current.AuthInfo
}

// Kind is the kind of instances that a command is about, in the person's workspace.
type Kind struct {
	Config    *rest.Config
	objects   dynamic.Interface
	Resource  schema.GroupVersionResource
	Namespace string
}

// Kind connects to the workspace, and has the kind that is meant.
func (s *Target) Kind() (Kind, error) {
	cfg, namespace, err := s.Workspace()
	if err != nil {
		return Kind{}, err
	}
	resource, err := s.Meant()
	if err != nil {
		return Kind{}, err
	}
	objects, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return Kind{}, fmt.Errorf("making a client for the workspace: %w", err)
	}
	return Kind{cfg, objects, resource, namespace}, nil
}

// Instances are those of the kind, in the namespace that is meant.
func (k Kind) Instances() dynamic.ResourceInterface {
	return k.objects.Resource(k.Resource).Namespace(k.Namespace)
}

// Instance finds the instance of a name, or the component of it that --component names, for a verb. An instance whose
// components have the verb, and not itself, is a usage error that names them.
func (s *Target) Instance(ctx context.Context, name, verb string) (*client.Instance, error) {
	i, err := s.find(ctx, name)
	if err != nil {
		return nil, err
	}
	if have := i.ComponentsWith(verb); s.component == "" && !i.Has(verb) && len(have) > 0 {
		return nil, &UsageError{fmt.Errorf("%s has the verb %s for its components alone: add --component, with one of %s",
			s.Name, verb, termsafe.Line(strings.Join(have, ", ")))}
	}
	return session.Component(i, s.component)
}

// Components are those of the instance of a name that have a verb, or the one that --component names, by their names. An
// instance that has the verb itself, or whose components do not have it either, is the only one, with an empty name.
func (s *Target) Components(ctx context.Context, name, verb string) (map[string]*client.Instance, error) {
	i, err := s.find(ctx, name)
	if err != nil {
		return nil, err
	}
	names := i.ComponentsWith(verb)
	if s.component != "" || i.Has(verb) || len(names) == 0 {
		one, err := session.Component(i, s.component)
		return map[string]*client.Instance{"": one}, err
	}
	components := map[string]*client.Instance{}
	for _, name := range names {
		components[name] = i.Component(name)
	}
	return components, nil
}

// Parts are those of the instance that --component names, or all.
func (s *Target) Parts(ctx context.Context, args []string, notes io.Writer) ([]session.Part, error) {
	i, err := s.find(ctx, args[0])
	if err != nil {
		return nil, err
	}
	return session.Parts(ctx, i, append(args, ".")[1], s.component, PrintNotes(notes))
}

// find finds the instance that an argument names, with the way to its data plane.
func (s *Target) find(ctx context.Context, argument string) (i *client.Instance, err error) {
	w, err := s.Open()
	if err != nil {
		return nil, err
	}
	err = s.WithKindOf(ctx, argument, func(k object.Kind) error {
		i, err = w.Instance(ctx, k.Resource, s.Name)
		return err
	})
	if err == nil {
		s.UID = string(i.Object.GetUID())
	}
	return i, err
}

// WithKindOf calls do with the kind of the instance that an argument names, as [object.Client.WithKindOf] does. From there on
// the target is that instance.
func (s *Target) WithKindOf(ctx context.Context, argument string, do func(object.Kind) error) error {
	r, err := s.Refer(argument)
	if err != nil {
		return err
	}
	cfg, namespace, err := s.Workspace()
	if err != nil {
		return err
	}
	c, err := object.New(cfg)
	if err != nil {
		return err
	}
	err = c.WithKindOf(ctx, namespace, r, func(k object.Kind) error {
		s.KindFound = k.Resource
		return do(k)
	})
	return UnknownKind(r.Kind, err)
}

// Refer reads the argument that names the instance, and --resource.
func (s *Target) Refer(argument string) (object.Reference, error) {
	r, err := object.ParseReference(argument)
	if err != nil {
		return object.Reference{}, err
	}
	s.Name, s.reference = r.Name, argument
	if s.Resource == "" {
		return r, nil
	}
	if r.Kind != "" {
		return object.Reference{}, &UsageError{fmt.Errorf("%s has a kind, and so does --resource: leave one of them out", r)}
	}
	r.Resource, err = parseResource(s.Resource)
	return r, err
}

// Meant is the resource of the kind that is meant: the one that was found, else that of --resource, and else that of
// SandboxRunners.
func (s *Target) Meant() (schema.GroupVersionResource, error) {
	switch {
	case !s.KindFound.Empty():
		return s.KindFound, nil
	case s.Resource == "":
		return client.SandboxRunners, nil
	}
	return parseResource(s.Resource)
}

// Open returns the workspace with the data planes that are trusted.
func (s *Target) Open() (session.Workspace, error) {
	cfg, namespace, err := s.Workspace()
	if err != nil {
		return session.Workspace{}, err
	}
	store, err := s.TrustStore()
	if err != nil {
		return session.Workspace{}, err
	}
	return session.Workspace{Config: cfg, Namespace: namespace, Trust: store}, nil
}

// InWorkspace is open for a command that reports what it does and asks the person.
func (s *Target) InWorkspace(cmd *cobra.Command) (session.Workspace, error) {
	w, err := s.Open()
	w.Notes = PrintNotes(cmd.ErrOrStderr())
	w.Confirm = func(o client.Offer) bool { return AsksPerson(cmd) && Confirmed(cmd, o) }
	return w, err
}

// parseResource reads "resource.group" or "resource.version.group".
func parseResource(text string) (schema.GroupVersionResource, error) {
	resource, rest, ok := strings.Cut(text, ".")
	if !ok || resource == "" || rest == "" {
		return schema.GroupVersionResource{}, &UsageError{fmt.Errorf("--resource %q has no group: write resource.group, such as %s.sandbar.dev", text, cmp.Or(termsafe.Line(strings.Trim(text, ".")), "sandboxes"))}
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

// TrustStore has the data planes that the person trusts.
func (s *Target) TrustStore() (session.TrustStore, error) {
	if s.TrustFile != "" {
		return session.TrustStore{Path: s.TrustFile}, nil
	}
	file, err := client.TrustFile()
	if err != nil {
		return session.TrustStore{}, fmt.Errorf("%w (use --trust-file)", err)
	}
	return session.TrustStore{Path: file}, nil
}
