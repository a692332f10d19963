// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbar-dev/sandbar/pkg/credential"
)

// Identity is a ServiceAccount that a part of the provider runs as.
type Identity struct {
	// KCP reports whether it is in the provider workspace, and not on the runtime cluster.
	KCP bool
	// Account is its name, in the provider's own namespace.
	Account string
	// File is the name of its kubeconfig in Options.OutDir.
	File string
}

// Identities returns those that Init makes.
func Identities() []Identity {
	return []Identity{
		{true, "sandbar-provider", KCPKubeconfig},
		{true, "sandbar-provider-serve", KCPServeKubeconfig},
		{false, "sandbar-controllers", ControllersKubeconfig},
		{false, "sandbar-serve", ServeKubeconfig},
	}
}

// TokenFile is the name of the file with its token, beside its kubeconfig.
func (i Identity) TokenFile() string { return tokenFile(i.File) }

// writeIdentities writes a kubeconfig for each of the narrow identities, and its token into a file
// beside it, which the process that uses it renews (package credential).
func writeIdentities(ctx context.Context, opts Options, kcp, rt *applier, report *Report) error {
	if err := os.MkdirAll(opts.OutDir, 0o700); err != nil {
		return err
	}
	for _, id := range Identities() {
		side := rt
		if id.KCP {
			side = kcp
		}
		path := filepath.Join(opts.OutDir, id.File)
		token := tokenFile(path)
		action, err := side.writeToken(ctx, id.Account, token, opts.TokenLifetime)
		if err != nil {
			return err
		}
		report.add("file", "token", token, action)
		content, err := kubeconfig(side, id.Account, filepath.Base(token))
		if err != nil {
			return fmt.Errorf("of %s: %w", id.Account, err)
		}
		if action, err = writeSecret(path, content); err != nil {
			return err
		}
		report.add("file", "kubeconfig", path, action)
	}
	return nil
}

// tokenFile is where the token of a kubeconfig lies.
func tokenFile(kubeconfig string) string {
	return strings.TrimSuffix(kubeconfig, ".kubeconfig") + ".token"
}

// writeToken writes a new token, unless the one that is there is as good: of the same
// ServiceAccount, which may have been made anew to void what was stolen, and not due for renewal.
func (a *applier) writeToken(ctx context.Context, name, path string, lifetime time.Duration) (Action, error) {
	client, err := kubernetes.NewForConfig(a.cfg)
	if err != nil {
		return "", fmt.Errorf("connecting to %s: %w", a.where, err)
	}
	accounts := client.CoreV1().ServiceAccounts(a.system)
	account, err := accounts.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("reading ServiceAccount %s: %w", name, err)
	}
	if there, err := credential.Read(path); err == nil && there.UID == string(account.UID) &&
		there.Lifetime() == lifetime && time.Now().Before(there.Due()) {
		return Unchanged, os.Chmod(path, 0o600)
	}
	seconds := int64(lifetime.Seconds())
	answer, err := accounts.CreateToken(ctx, name,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("asking %s for a token of ServiceAccount %s: %w", a.where, name, err)
	}
	return Written, credential.WriteFile(path, []byte(answer.Status.Token))
}

// legacyTokens are the names of Secrets in which earlier versions kept tokens without an end. The
// processes of those versions use them until they are started again.
var legacyTokens = map[string][]string{
	"kcp":     {"sandbar-provider-token"},
	"runtime": {"sandbar-controllers-token", "sandbar-serve-token"},
}

// removeLegacyTokens voids the tokens of earlier versions, once there are files to use instead.
func (a *applier) removeLegacyTokens(ctx context.Context) error {
	for _, name := range legacyTokens[a.where] {
		secret := &unstructured.Unstructured{}
		secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
		err := a.client.Get(ctx, client.ObjectKey{Namespace: a.system, Name: name}, secret)
		if notThere(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("looking for the token of an earlier version: %w", err)
		}
		if a.opts.OutDir == "" {
			a.opts.Progress(fmt.Sprintf("Secret %s holds a token that never expires: run init with --out to have files with ones that do, and it is removed", qualified(secret)))
			continue
		}
		if !a.opts.DryRun {
			if err := a.client.Delete(ctx, secret); err != nil && !notThere(err) {
				return fmt.Errorf("removing the token of an earlier version: %w", err)
			}
		}
		a.report.add(a.where, "Secret", qualified(secret), Deleted)
	}
	return nil
}

// kubeconfig reaches the same server in the same way as a side, as another. Its namespace is the provider's own, by
// which the process that uses it knows the provider's names on the runtime cluster (placement.NamesIn).
func kubeconfig(side *applier, account, tokenFile string) ([]byte, error) {
	// Copies only the server and how it is trusted: nothing of the administrator.
	cfg := rest.AnonymousClientConfig(side.cfg)
	if err := rest.LoadTLSFiles(cfg); err != nil {
		return nil, fmt.Errorf("reading the certificate authority: %w", err)
	}
	out := clientcmdapi.NewConfig()
	out.Clusters["sandbar"] = &clientcmdapi.Cluster{
		Server: cfg.Host, CertificateAuthorityData: cfg.CAData,
		InsecureSkipTLSVerify: cfg.Insecure, TLSServerName: cfg.ServerName,
	}
	out.AuthInfos[account] = &clientcmdapi.AuthInfo{TokenFile: tokenFile}
	out.Contexts["sandbar"] = &clientcmdapi.Context{Cluster: "sandbar", AuthInfo: account, Namespace: side.system}
	out.CurrentContext = "sandbar"
	return clientcmd.Write(*out)
}

// writeSecret writes a file that only its owner may read, if it is to change.
func writeSecret(path string, content []byte) (Action, error) {
	before, err := os.ReadFile(path)
	if err == nil && bytes.Equal(before, content) {
		return Unchanged, os.Chmod(path, 0o600)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	return Written, credential.WriteFile(path, content)
}
