// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package start

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/sandbar-dev/sandbar/client/login"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
	"github.com/sandbar-dev/sandbar/pkg/termsafe"
)

func newLoginCommand(s *target) *cobra.Command {
	var c credentialFlags
	var caFile string
	cmd := &cobra.Command{
		Use:   "login URL",
		Short: "Log in to a workspace: try a credential, and write it into the kubeconfig",
		Long: `Log in to a workspace: try a credential, and write it into the kubeconfig.

URL is the workspace's, https://HOST/clusters/WORKSPACE. The credential is one of these:

  --token TOKEN            a bearer token; --token - reads it from stdin, so that it is in no
                           process list and no history
  --token-file FILE        a file that has the token whenever it is needed
  --client-certificate FILE --client-key FILE
                           a client certificate, which kcp takes and data planes do not
  --exec-command PROGRAM   a credential plugin as kubectl runs it, with --exec-arg and --exec-env
  --oidc-issuer-url URL --oidc-client-id ID
                           a login in the browser at an OpenID provider, of a public client that
                           it lets return to http://127.0.0.1 at any port. sandbar keeps the login
                           and refreshes it, for kubectl too. On a machine without a browser,
                           --device prints a page and a code for any other device

sandbar login asks the workspace first whose credential it is, and writes nothing if the workspace
refuses it. It makes a context WORKSPACE@HOST, or --context, and makes it the current one. Logging
in again replaces the credential and keeps the context's namespace. A context, a cluster or a user
of that name that leads elsewhere is not touched.`,
		Args: cli.Named("URL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if s.Overrides.ClusterInfo.Server != "" {
				return &cli.UsageError{Err: errors.New("login takes the server as its argument: leave --server out")}
			}
			if s.InPath != "" {
				return &cli.UsageError{Err: errors.New("login takes the workspace in its URL: leave --workspace out")}
			}
			server, err := login.ParseServer(args[0])
			if err != nil {
				return &cli.UsageError{Err: err}
			}
			l := login.Login{Server: server, Context: s.Overrides.CurrentContext, Namespace: s.Overrides.Context.Namespace}
			if caFile != "" {
				if l.CAFile, err = readable("--certificate-authority", caFile); err != nil {
					return err
				}
			}
			if l.User, err = c.read(cmd); err != nil {
				return err
			}
			if c.openid.issuer != "" {
				return s.loginOpenID(cmd, l, c.openid)
			}
			return s.login(cmd, l, l.User)
		},
	}
	cmd.Flags().StringVar(&caFile, "certificate-authority", "", "PEM bundle that verifies the server; the system's roots do by default")
	c.addFlags(cmd.Flags())
	return cmd
}

// kubeconfigAccess is the kubeconfig that kubectl config would change too.
func (s *target) kubeconfigAccess() clientcmd.ConfigAccess {
	file := clientcmd.NewDefaultPathOptions()
	file.LoadingRules.ExplicitPath = s.Kubeconfig
	return file
}

// nameOf is the path of the kubeconfig that new entries go to.
func nameOf(file clientcmd.ConfigAccess) string {
	if file.IsExplicitFile() {
		return file.GetExplicitFile()
	}
	return file.GetDefaultFilename()
}

// login tries a credential and writes l.User, which stands for it in the kubeconfig.
func (s *target) login(cmd *cobra.Command, l login.Login, credential *clientcmdapi.AuthInfo) error {
	file := s.kubeconfigAccess()
	tried := l
	tried.User = credential
	cfg, err := tried.Prepare(file)
	if err != nil {
		return loginError(cmd.Context(), err)
	}
	me, err := login.Try(cmd.Context(), cfg, cfg.CurrentContext)
	if err != nil {
		return loginError(cmd.Context(), err)
	}
	name, err := l.Write(file)
	if err != nil {
		return loginError(cmd.Context(), err)
	}
	out := cmd.ErrOrStderr()
	fmt.Fprintf(out, "You are %s in %s.\n", termsafe.Line(me.Username), cli.PlaceOf(l.Server))
	fmt.Fprintf(out, "%s has the context %s, and it is the current one.\n", nameOf(file), name)
	if l.User.ClientCertificate != "" {
		fmt.Fprintln(out, "A data plane takes no client certificate: logs, dev and exec need a token.")
	}
	fmt.Fprintln(out, "Next, bring the provider's kinds into the workspace: sandbar bind")
	return nil
}

// loginError is an error of package login with what helps.
func loginError(ctx context.Context, err error) error {
	var taken *login.TakenError
	var refused *login.RefusedError
	switch {
	case ctx.Err() != nil:
		return err
	case errors.As(err, &taken):
		return &cli.UsageError{Err: fmt.Errorf("%w: nothing has been changed; choose another name with --context", err)}
	case errors.As(err, &refused):
		return fmt.Errorf("%s; nothing has been written", refusalText(refused))
	default:
		return fmt.Errorf("%w; nothing has been written", err)
	}
}

// refusalText says why a credential was refused, and what helps.
func refusalText(e *login.RefusedError) string {
	place := cli.PlaceOf(e.Server)
	switch e.Refusal {
	case login.Unknown:
		return place + " does not know the credential: check that it is one for this server, and that it has not expired"
	case login.Anonymous:
		return place + " takes the credential for none: a client certificate has to be one of a CA that the server trusts"
	case login.NoAccess:
		return fmt.Sprintf("%s knows the credential, and denies its user access: ask the owner of the workspace for it (%s)", place, termsafe.Line(e.Err.Error()))
	case login.NotVerified:
		return fmt.Sprintf("the certificate of %s is not verified, and the credential was not sent (%v): pass the CA that the people who run it gave you with --certificate-authority FILE", place, e.Err)
	default:
		return fmt.Sprintf("%s cannot be reached, or does not answer as kcp does (%s)", place, termsafe.Line(e.Err.Error()))
	}
}

func newLogoutCommand(s *target) *cobra.Command {
	return &cobra.Command{
		Use:   "logout",
		Short: "Remove what sandbar login has written of a context from the kubeconfig",
		Long: `Remove the credential of the kubeconfig's current context, or of --context, and the context and its
cluster if sandbar login has made them. What login has not written stays.`,
		Args: cli.Named(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			file := s.kubeconfigAccess()
			name, user, err := login.Logout(file, s.Overrides.CurrentContext)
			var missing *login.NoContextError
			switch {
			case errors.As(err, &missing):
				return &cli.UsageError{Err: fmt.Errorf("%w: name one with --context", err)}
			case errors.Is(err, login.ErrNotOurs):
				return fmt.Errorf("%w; kubectl config delete-user and delete-context remove others", err)
			case err != nil:
				return err
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "%s has no credential for the context %s any more.\n", nameOf(file), termsafe.Line(name))
			return endLogin(cmd, user)
		},
	}
}

// absolute is a path as a kubeconfig in another folder has it.
func absolute(path string) (string, error) {
	full, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("finding %s: %w", path, err)
	}
	return full, nil
}
