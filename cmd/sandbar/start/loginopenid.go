// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package start

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/sandbar-dev/sandbar/client"
	"github.com/sandbar-dev/sandbar/client/login"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
	"github.com/sandbar-dev/sandbar/pkg/openid"
	"github.com/sandbar-dev/sandbar/pkg/termsafe"
)

// maxBundleFile bounds --oidc-certificate-authority; the bundles of whole operating systems have 220 KiB.
const maxBundleFile = 1 << 20

// openidFlags are those of a login at an OpenID provider.
type openidFlags struct {
	issuer, client, caFile string
	scopes                 []string
	port                   uint16
	noBrowser, device      bool
}

func (o *openidFlags) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.issuer, "oidc-issuer-url", "", "URL of the OpenID provider, exactly as in its tokens")
	fs.StringVar(&o.client, "oidc-client-id", "", "ID of the client at the provider, a public one")
	fs.StringArrayVar(&o.scopes, "oidc-extra-scope", nil, "scope to ask for beside openid, such as email or groups; may be repeated")
	fs.StringVar(&o.caFile, "oidc-certificate-authority", "", "PEM bundle that verifies the provider; the system's roots do by default")
	fs.Uint16Var(&o.port, "oidc-listen-port", 0, "port of 127.0.0.1 that the browser returns to; any that is free by default")
	fs.BoolVar(&o.noBrowser, "no-browser", false, "print the address of the provider's page and start no browser")
	fs.BoolVar(&o.device, "device", false, "log in on another device, such as a phone: print a page and the code to enter there")
}

// check refuses flags that do not go together.
func (o *openidFlags) check() error {
	switch {
	case (o.issuer == "") != (o.client == ""):
		return errors.New("--oidc-issuer-url and --oidc-client-id go together")
	case o.device && o.issuer == "":
		return errors.New("--device is for a login at an OpenID provider: add --oidc-issuer-url and --oidc-client-id")
	case o.device && (o.noBrowser || o.port != 0):
		return errors.New("--device needs no browser of this machine: leave --no-browser and --oidc-listen-port out")
	}
	return nil
}

// config is the client at the issuer.
func (o *openidFlags) config() (openid.Config, error) {
	c := openid.Config{Issuer: o.issuer, ClientID: o.client, Scopes: o.scopes}
	if o.caFile == "" {
		return c, nil
	}
	file, err := os.Open(o.caFile)
	if err != nil {
		return c, &cli.UsageError{Err: fmt.Errorf("reading --oidc-certificate-authority: %w", err)}
	}
	defer file.Close()
	c.CA, err = io.ReadAll(io.LimitReader(file, maxBundleFile+1)) //nolint:forbidigo // maxBundleFile
	if err == nil && len(c.CA) > maxBundleFile {
		err = fmt.Errorf("%s has more than %d bytes", o.caFile, maxBundleFile)
	}
	if err != nil {
		return c, fmt.Errorf("reading --oidc-certificate-authority: %w", err)
	}
	return c, nil
}

// logins is the store of the logins of this machine.
func logins() (openid.Store, error) {
	file, err := client.TrustFile()
	if err != nil {
		return openid.Store{}, err
	}
	return openid.Store{Dir: filepath.Join(filepath.Dir(file), "logins")}, nil
}

// loginOpenID logs in at the provider, tries the token, keeps the login, and writes a plugin that gives it out.
func (s *target) loginOpenID(cmd *cobra.Command, l login.Login, o openidFlags) error {
	store, err := logins()
	if err != nil {
		return err
	}
	config, err := o.config()
	if err != nil {
		return err
	}
	// A name that is taken is an error before the person has logged in, and not after.
	cfg, err := l.Prepare(s.kubeconfigAccess())
	if err != nil {
		return loginError(cmd.Context(), err)
	}
	before := s.loginOf(cfg.CurrentContext)
	tokens, err := atProvider(cmd, config, o)
	if err != nil {
		return openidError(cmd.Context(), err)
	}
	if tokens.Refresh == "" {
		fmt.Fprintln(cmd.ErrOrStderr(), "The provider gives no refresh token: the login ends with its first token. It may need --oidc-extra-scope offline_access.")
	}
	name := openid.NewName()
	if err := store.Save(name, openid.Login{Config: config, Tokens: tokens}); err != nil {
		return err
	}
	l.User = &clientcmdapi.AuthInfo{Exec: plugin(name, config)}
	if err := s.login(cmd, l, &clientcmdapi.AuthInfo{Token: tokens.ID}); err != nil {
		_, removal := store.Remove(context.WithoutCancel(cmd.Context()), name)
		return errors.Join(err, removal)
	}
	if before != "" {
		_, _ = store.Remove(cmd.Context(), before) // nothing leads to it any more
	}
	return nil
}

// loginOf is the name of the login that a context of the kubeconfig uses; empty if it uses none.
func (s *target) loginOf(contextName string) string {
	cfg, err := s.kubeconfigAccess().GetStartingConfig()
	if err != nil || cfg.Contexts[contextName] == nil {
		return ""
	}
	return loginNameOf(cfg.AuthInfos[cfg.Contexts[contextName].AuthInfo])
}

// atProvider is the login at the provider, in the browser or on another device.
func atProvider(cmd *cobra.Command, config openid.Config, o openidFlags) (openid.Tokens, error) {
	provider, err := openid.Discover(cmd.Context(), config)
	if err != nil {
		return openid.Tokens{}, err
	}
	if o.device {
		return provider.LoginDevice(cmd.Context(), openid.Device{Show: func(i openid.Invitation) error {
			printInvitation(cmd.ErrOrStderr(), i)
			return nil
		}})
	}
	return provider.Login(cmd.Context(), openid.Browser{
		Port: o.port,
		Open: func(ctx context.Context, address string) error {
			fmt.Fprintf(cmd.ErrOrStderr(), "Log in with your browser, within %s:\n%s\n", openid.DefaultPatience, termsafe.Line(address))
			if !o.noBrowser && cli.Terminal(cmd.ErrOrStderr()) {
				go func() { _ = cli.Browse(ctx, address) }() // some run until their window is closed
			}
			return nil
		},
	})
}

// printInvitation tells a person how to log in on another device. Somebody else who sends a person a page and a code of their own
// login would get the person's tokens (RFC 8628, 5.4), so it says whose code this is.
func printInvitation(out io.Writer, i openid.Invitation) {
	fmt.Fprintf(out, "Log in on any device, within %s:\n", i.Within)
	fmt.Fprintf(out, "  page  %s\n  code  %s\n", termsafe.Line(i.Address), termsafe.Line(i.Code))
	if i.Complete != "" {
		fmt.Fprintf(out, "  both  %s\n", termsafe.Line(i.Complete))
	}
	fmt.Fprintln(out, "Allow it only if the page shows this code. Do not send it to anybody, and enter no code that somebody sent you.")
}

// plugin is the entry of the kubeconfig: this program gives out the login's token, for kubectl too.
func plugin(name string, config openid.Config) *clientcmdapi.ExecConfig {
	out := &clientcmdapi.ExecConfig{
		Command: ownCommand(), APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
		Args:        []string{"credential", "--login", name, "--oidc-issuer-url", config.Issuer, "--oidc-client-id", config.ClientID},
		InstallHint: "The login was made by sandbar, which is not in PATH: https://github.com/sandbar-dev/sandbar",
	}
	if dir := os.Getenv(client.ConfigDirVariable); dir != "" {
		out.Env = []clientcmdapi.ExecEnvVar{{Name: client.ConfigDirVariable, Value: dir}}
	}
	return out
}

// ownCommand is sandbar if PATH leads to this program, so that an update is used, and otherwise the path of this program.
func ownCommand() string {
	own, err := os.Executable()
	if err != nil {
		return "sandbar"
	}
	found, err := exec.LookPath("sandbar")
	if err != nil {
		return own
	}
	a, errA := os.Stat(own)
	b, errB := os.Stat(found)
	if errA == nil && errB == nil && os.SameFile(a, b) {
		return "sandbar"
	}
	return own
}

// loginNameOf is the name of the login that a user of a kubeconfig has; empty for another kind of credential.
func loginNameOf(user *clientcmdapi.AuthInfo) string {
	if user == nil || user.Exec == nil || len(user.Exec.Args) < 3 || user.Exec.Args[0] != "credential" || user.Exec.Args[1] != "--login" {
		return ""
	}
	return user.Exec.Args[2]
}

// openidError is an error of package openid with what helps.
func openidError(ctx context.Context, err error) error {
	var issuer *openid.IssuerError
	var wrong *openid.URLError
	switch {
	case ctx.Err() != nil:
		return err
	case errors.As(err, &wrong) && wrong.What == "issuer":
		return &cli.UsageError{Err: fmt.Errorf("--oidc-issuer-url: %w", err)}
	case errors.Is(err, openid.ErrPatience):
		return fmt.Errorf("%w; nothing has been written; --device logs in on another device than this one", err)
	case errors.Is(err, openid.ErrNoDeviceLogin):
		return fmt.Errorf("%w; nothing has been written: leave --device out, and open the page in a browser of this machine", err)
	case errors.As(err, &issuer) && issuer.Code == "access_denied":
		return fmt.Errorf("the provider denies the login, and nothing has been written (%w)", err)
	default:
		return fmt.Errorf("%w; nothing has been written", err)
	}
}

// endLogin removes the login of a user that was taken out of the kubeconfig, here and at the provider.
func endLogin(cmd *cobra.Command, user *clientcmdapi.AuthInfo) error {
	name := loginNameOf(user)
	if name == "" {
		return nil
	}
	store, err := logins()
	if err != nil {
		return err
	}
	kept, err := store.Remove(cmd.Context(), name)
	var missing *openid.NoLoginError
	if errors.As(err, &missing) {
		return nil
	}
	if err != nil {
		return err
	}
	provider, err := openid.Discover(cmd.Context(), kept.Config)
	revoked := false
	if err == nil {
		revoked, err = provider.Revoke(cmd.Context(), kept.Tokens)
	}
	switch {
	case err != nil:
		fmt.Fprintf(cmd.ErrOrStderr(), "The login is gone from this machine; the provider may keep it (%s).\n", termsafe.Line(err.Error()))
	case revoked:
		fmt.Fprintln(cmd.ErrOrStderr(), "The login is gone from this machine, and the provider has ended it.")
	default:
		fmt.Fprintln(cmd.ErrOrStderr(), "The login is gone from this machine; the provider has no way to end it there.")
	}
	return nil
}
