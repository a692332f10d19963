// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package start

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
)

// maxToken bounds a token: servers take headers of 1 MiB at most, and proxies much less.
const maxToken = 64 << 10

// credentialFlags are those of login.
type credentialFlags struct {
	token, tokenFile         string
	certificate, key         string
	execCommand              string
	execArgs, execEnv        []string
	execVersion, execInstall string
	openid                   openidFlags
}

func (c *credentialFlags) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.token, "token", "", "bearer token; - reads it from stdin")
	fs.StringVar(&c.tokenFile, "token-file", "", "file that has the bearer token")
	fs.StringVar(&c.certificate, "client-certificate", "", "PEM file with the client certificate")
	fs.StringVar(&c.key, "client-key", "", "PEM file with its key")
	fs.StringVar(&c.execCommand, "exec-command", "", "program that prints a credential, as kubectl's plugins do")
	fs.StringArrayVar(&c.execArgs, "exec-arg", nil, "argument of the program; may be repeated")
	fs.StringArrayVar(&c.execEnv, "exec-env", nil, "variable of the program's environment, NAME=VALUE; may be repeated")
	fs.StringVar(&c.execVersion, "exec-api-version", "client.authentication.k8s.io/v1", "version of the program's output")
	fs.StringVar(&c.execInstall, "exec-install-hint", "", "what a person reads where the program is missing")
	c.openid.addFlags(fs)
}

// read returns the credential that the flags name, and checks what can be checked on this machine.
func (c *credentialFlags) read(cmd *cobra.Command) (*clientcmdapi.AuthInfo, error) {
	given := 0
	for _, value := range []string{c.token, c.tokenFile, c.certificate, c.execCommand, c.openid.issuer} {
		if value != "" {
			given++
		}
	}
	if err := c.openid.check(); err != nil {
		return nil, &cli.UsageError{Err: err}
	}
	switch {
	case given == 0:
		return nil, &cli.UsageError{Err: errors.New("login needs a credential: --token, --token-file, --client-certificate with --client-key, --exec-command, or --oidc-issuer-url with --oidc-client-id; see sandbar login --help")}
	case given > 1:
		return nil, &cli.UsageError{Err: errors.New("login takes one credential: --token, --token-file, --client-certificate, --exec-command and --oidc-issuer-url exclude each other")}
	case c.execCommand == "" && len(c.execArgs)+len(c.execEnv) > 0:
		return nil, &cli.UsageError{Err: errors.New("--exec-arg and --exec-env need --exec-command")}
	case (c.certificate == "") != (c.key == ""):
		return nil, &cli.UsageError{Err: errors.New("--client-certificate and --client-key go together")}
	case c.openid.issuer != "":
		return &clientcmdapi.AuthInfo{}, nil // it comes from the browser
	case c.token != "":
		return c.readToken(cmd)
	case c.tokenFile != "":
		return c.readTokenFile()
	case c.certificate != "":
		return c.readCertificate(time.Now())
	default:
		return c.readExec()
	}
}

func (c *credentialFlags) readToken(cmd *cobra.Command) (*clientcmdapi.AuthInfo, error) {
	token := c.token
	if token == "-" {
		if cli.AsksPerson(cmd) {
			fmt.Fprintln(cmd.ErrOrStderr(), "The token is read from this terminal, which shows it. End it with Ctrl-D on a line of its own.")
		}
		var err error
		if token, err = tokenFrom(cmd.Context(), cmd.InOrStdin()); err != nil {
			return nil, fmt.Errorf("reading the token from stdin: %w", err)
		}
	}
	if err := checkToken(token); err != nil {
		return nil, &cli.UsageError{Err: err}
	}
	return &clientcmdapi.AuthInfo{Token: token}, nil
}

// tokenFrom reads a token. An interrupt ends the wait for it at once.
func tokenFrom(ctx context.Context, in io.Reader) (string, error) {
	type result struct {
		text []byte
		err  error
	}
	read := make(chan result, 1)
	go func() {
		text, err := io.ReadAll(io.LimitReader(in, maxToken+1)) //nolint:forbidigo // maxToken
		read <- result{text, err}
	}()
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case r := <-read:
		return strings.TrimSpace(string(r.text)), r.err
	}
}

// checkToken refuses what cannot be sent. It does not quote the token.
func checkToken(token string) error {
	switch {
	case token == "":
		return errors.New("the token is empty")
	case len(token) > maxToken:
		return fmt.Errorf("the token has more than %d bytes", maxToken)
	case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
		return errors.New("the token has a space or another character that tokens do not have: pass the token alone, without Bearer")
	}
	return nil
}

func (c *credentialFlags) readTokenFile() (*clientcmdapi.AuthInfo, error) {
	path, err := readable("--token-file", c.tokenFile)
	if err != nil {
		return nil, err
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading --token-file: %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxToken+1)) //nolint:forbidigo // maxToken
	if err != nil {
		return nil, fmt.Errorf("reading --token-file: %w", err)
	}
	if err := checkToken(strings.TrimSpace(string(text))); err != nil {
		return nil, fmt.Errorf("reading --token-file: %w", err)
	}
	return &clientcmdapi.AuthInfo{TokenFile: path}, nil
}

func (c *credentialFlags) readCertificate(now time.Time) (*clientcmdapi.AuthInfo, error) {
	certificate, err := absolute(c.certificate)
	if err != nil {
		return nil, err
	}
	key, err := absolute(c.key)
	if err != nil {
		return nil, err
	}
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("reading the client certificate: %w", err)
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		return nil, fmt.Errorf("reading the client certificate: %w", err)
	}
	if now.After(leaf.NotAfter) {
		return nil, fmt.Errorf("the client certificate %s expired at %s: ask for another one", c.certificate, leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	return &clientcmdapi.AuthInfo{ClientCertificate: certificate, ClientKey: key}, nil
}

func (c *credentialFlags) readExec() (*clientcmdapi.AuthInfo, error) {
	command := c.execCommand
	if strings.ContainsRune(command, os.PathSeparator) { // others are looked for in PATH
		var err error
		if command, err = absolute(command); err != nil {
			return nil, err
		}
	}
	exec := &clientcmdapi.ExecConfig{
		Command: command, Args: c.execArgs, APIVersion: c.execVersion, InstallHint: c.execInstall,
		InteractiveMode: clientcmdapi.IfAvailableExecInteractiveMode,
	}
	for _, variable := range c.execEnv {
		name, value, ok := strings.Cut(variable, "=")
		if !ok || name == "" {
			return nil, &cli.UsageError{Err: fmt.Errorf("--exec-env %q is not NAME=VALUE", variable)}
		}
		exec.Env = append(exec.Env, clientcmdapi.ExecEnvVar{Name: name, Value: value})
	}
	return &clientcmdapi.AuthInfo{Exec: exec}, nil
}

// readable is the absolute path of a file that can be read.
func readable(flag, path string) (string, error) {
	full, err := absolute(path)
	if err != nil {
		return "", err
	}
	file, err := os.Open(full)
	if err != nil {
		return "", &cli.UsageError{Err: fmt.Errorf("reading %s: %w", flag, err)}
	}
	_ = file.Close()
	return full, nil
}
