// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

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

// target is the person's workspace and the instance that a command is about, as the flags say.
type target struct {
	// version is the program's, which the servers get to know.
	version    string
	kubeconfig string
	overrides  clientcmd.ConfigOverrides
	// inPath is the workspace that --workspace names.
	inPath    string
	resource  string
	component string
	trustFile string

	// asArgument reports whether the kind is an argument of the command, and not the flag --resource.
	asArgument bool
	// kindFound is the resource of the instance's kind once that is known, and empty before.
	kindFound schema.GroupVersionResource
	// name and uid are those of the instance that was found, and reference is what the person wrote of it.
	name, uid, reference string
	// told is what the person was told last of the instance's state, before dev follows it.
	told string
}

func (s *target) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&s.kubeconfig, "kubeconfig", "", "kubeconfig that leads to your workspace; as for kubectl, $KUBECONFIG and ~/.kube/config are next")
	flags := clientcmd.RecommendedConfigOverrideFlags("")
	flags.ContextOverrideFlags.Namespace.ShortName = "n"
	flags.CurrentContext.Description = "context of the kubeconfig to use, instead of its current one"
	flags.ContextOverrideFlags.Namespace.Description = "namespace of the objects, instead of the context's"
	flags.ClusterOverrideFlags.APIServer.Description = "address of your workspace, instead of the context's"
	flags.CurrentContext.BindStringFlag(fs, &s.overrides.CurrentContext)
	flags.ContextOverrideFlags.Namespace.BindStringFlag(fs, &s.overrides.Context.Namespace)
	flags.ClusterOverrideFlags.APIServer.BindStringFlag(fs, &s.overrides.ClusterInfo.Server)
	fs.StringVar(&s.inPath, "workspace", "", "workspace of the same server to use, such as root:team, instead of the context's; $"+workspaceVariable+" is next")
	fs.StringVar(&s.resource, "resource", "",
		"resource of the instance's kind, for example redis.sandbar.dev: the same as KIND/NAME, for scripts")
	fs.StringVar(&s.component, "component", "", "component of the instance whose verb is meant")
	fs.StringVar(&s.trustFile, "trust-file", "", "file that holds the data planes that may get your token; defaults to sandbar/trust.json in your configuration folder")
}

// workspaceVariable is the variable of the environment that names the workspace, as --workspace does.
const workspaceVariable = "SANDBAR_WORKSPACE"

// otherWorkspace is the workspace that is meant instead of the context's, and what names it; empty if nothing does.
func (s *target) otherWorkspace() (path, from string) {
	if s.inPath != "" {
		return s.inPath, "--workspace"
	}
	return os.Getenv(workspaceVariable), "$" + workspaceVariable
}

// address is the one that leads to the workspace, for the server that the kubeconfig names.
func (s *target) address(server string) (string, error) {
	path, from := s.otherWorkspace()
	if path == "" {
		return server, nil
	}
	address, err := login.InWorkspace(server, path)
	if err != nil {
		return "", &usageError{fmt.Errorf("%s: %w", from, err)}
	}
	return address, nil
}

// workspace is the configuration that leads to the workspace, and the namespace.
func (s *target) workspace() (*rest.Config, string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = s.kubeconfig
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &s.overrides)
	cfg, err := loader.ClientConfig()
	if missing := missingFiles(rules); missing != "" && (err != nil || s.kubeconfig != "") {
		return nil, "", &usageError{errors.New(missing)}
	}
	if clientcmd.IsEmptyConfig(err) {
		// client-go's own words tell of a variable that its programs read inside a cluster.
		return nil, "", &usageError{errors.New("there is no kubeconfig that leads to your workspace: make one with sandbar login URL, pass --kubeconfig or set KUBECONFIG")}
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
func (s *target) credential() string {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = s.kubeconfig
	raw, err := rules.Load()
	if err != nil {
		return ""
	}
	current := raw.Contexts[cmp.Or(s.overrides.CurrentContext, raw.CurrentContext)]
	if current == nil {
		return ""
	}
	return current.AuthInfo
}

// kind is the kind of instances that a command is about, in the person's workspace.
type kind struct {
	cfg       *rest.Config
	objects   dynamic.Interface
	resource  schema.GroupVersionResource
	namespace string
}

// kind connects to the workspace, and has the kind that is meant.
func (s *target) kind() (kind, error) {
	cfg, namespace, err := s.workspace()
	if err != nil {
		return kind{}, err
	}
	resource, err := s.meant()
	if err != nil {
		return kind{}, err
	}
	objects, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return kind{}, fmt.Errorf("making a client for the workspace: %w", err)
	}
	return kind{cfg, objects, resource, namespace}, nil
}

// instances are those of the kind, in the namespace that is meant.
func (k kind) instances() dynamic.ResourceInterface {
	return k.objects.Resource(k.resource).Namespace(k.namespace)
}

// instance finds the instance of a name, or the component of it that --component names.
func (s *target) instance(ctx context.Context, name string) (*client.Instance, error) {
	i, err := s.find(ctx, name)
	if err != nil {
		return nil, err
	}
	return session.Component(i, s.component)
}

// parts are those of the instance that --component names, or all.
func (s *target) parts(ctx context.Context, args []string, notes io.Writer) ([]session.Part, error) {
	i, err := s.find(ctx, args[0])
	if err != nil {
		return nil, err
	}
	return session.Parts(ctx, i, append(args, ".")[1], s.component, printNotes(notes))
}

// find finds the instance that an argument names, with the way to its data plane.
func (s *target) find(ctx context.Context, argument string) (i *client.Instance, err error) {
	w, err := s.open()
	if err != nil {
		return nil, err
	}
	err = s.withKindOf(ctx, argument, func(k object.Kind) error {
		i, err = w.Instance(ctx, k.Resource, s.name)
		return err
	})
	if err == nil {
		s.uid = string(i.Object.GetUID())
	}
	return i, err
}

// withKindOf calls do with the kind of the instance that an argument names, as [object.Client.WithKindOf] does. From there on
// the target is that instance.
func (s *target) withKindOf(ctx context.Context, argument string, do func(object.Kind) error) error {
	r, err := s.refer(argument)
	if err != nil {
		return err
	}
	cfg, namespace, err := s.workspace()
	if err != nil {
		return err
	}
	c, err := object.New(cfg)
	if err != nil {
		return err
	}
	err = c.WithKindOf(ctx, namespace, r, func(k object.Kind) error {
		s.kindFound = k.Resource
		return do(k)
	})
	return unknownKind(r.Kind, err)
}

// refer reads the argument that names the instance, and --resource.
func (s *target) refer(argument string) (object.Reference, error) {
	r, err := object.ParseReference(argument)
	if err != nil {
		return object.Reference{}, err
	}
	s.name, s.reference = r.Name, argument
	if s.resource == "" {
		return r, nil
	}
	if r.Kind != "" {
		return object.Reference{}, &usageError{fmt.Errorf("%s has a kind, and so does --resource: leave one of them out", r)}
	}
	r.Resource, err = parseResource(s.resource)
	return r, err
}

// meant is the resource of the kind that is meant: the one that was found, else that of --resource, and else that of
// SandboxRunners.
func (s *target) meant() (schema.GroupVersionResource, error) {
	switch {
	case !s.kindFound.Empty():
		return s.kindFound, nil
	case s.resource == "":
		return client.SandboxRunners, nil
	}
	return parseResource(s.resource)
}

// open returns the workspace with the data planes that are trusted.
func (s *target) open() (session.Workspace, error) {
	cfg, namespace, err := s.workspace()
	if err != nil {
		return session.Workspace{}, err
	}
	store, err := s.trustStore()
	if err != nil {
		return session.Workspace{}, err
	}
	return session.Workspace{Config: cfg, Namespace: namespace, Trust: store}, nil
}

// inWorkspace is open for a command that reports what it does and asks the person.
func (s *target) inWorkspace(cmd *cobra.Command) (session.Workspace, error) {
	w, err := s.open()
	w.Notes = printNotes(cmd.ErrOrStderr())
	w.Confirm = func(o client.Offer) bool { return asksPerson(cmd) && confirmed(cmd, o) }
	return w, err
}

// parseResource reads "resource.group" or "resource.version.group".
func parseResource(text string) (schema.GroupVersionResource, error) {
	resource, rest, ok := strings.Cut(text, ".")
	if !ok || resource == "" || rest == "" {
		return schema.GroupVersionResource{}, &usageError{fmt.Errorf("--resource %q has no group: write resource.group, such as %s.sandbar.dev", text, cmp.Or(termsafe.Line(strings.Trim(text, ".")), "sandboxes"))}
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

func (s *target) trustStore() (session.TrustStore, error) {
	if s.trustFile != "" {
		return session.TrustStore{Path: s.trustFile}, nil
	}
	file, err := client.TrustFile()
	if err != nil {
		return session.TrustStore{}, fmt.Errorf("%w (use --trust-file)", err)
	}
	return session.TrustStore{Path: file}, nil
}
