// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// writeIdentities writes a kubeconfig for each of the narrow identities.
func writeIdentities(ctx context.Context, opts Options, kcp, rt *applier, report *Report) error {
	if err := os.MkdirAll(opts.OutDir, 0o700); err != nil {
		return err
	}
	for _, identity := range []struct {
		side    *applier
		account string
		file    string
	}{
		{kcp, "sandbar-provider", KCPKubeconfig},
		{rt, "sandbar-controllers", ControllersKubeconfig},
		{rt, "sandbar-serve", ServeKubeconfig},
	} {
		token, err := identity.side.token(ctx, identity.account+"-token")
		if err != nil {
			return err
		}
		content, err := kubeconfig(identity.side.cfg, identity.account, token)
		if err != nil {
			return fmt.Errorf("of %s: %w", identity.account, err)
		}
		path := filepath.Join(opts.OutDir, identity.file)
		action, err := writeSecret(path, content)
		if err != nil {
			return err
		}
		report.add("file", "kubeconfig", path, action)
	}
	return nil
}

// token waits until the cluster has filled in a ServiceAccount's token, and returns it.
func (a *applier) token(ctx context.Context, name string) (string, error) {
	secret := &unstructured.Unstructured{}
	secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	secret.SetNamespace(placement.SystemNamespace)
	secret.SetName(name)
	encoded := ""
	err := a.wait(ctx, secret, func(object *unstructured.Unstructured) bool {
		encoded, _, _ = unstructured.NestedString(object.Object, "data", corev1.ServiceAccountTokenKey)
		return encoded != ""
	})
	if err != nil {
		return "", fmt.Errorf("waiting for the token in Secret %s: %w", name, err)
	}
	token, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return "", fmt.Errorf("decoding the token in Secret %s: %w", name, err)
	}
	return string(token), nil
}

// kubeconfig reaches the same server in the same way as cfg, as another.
func kubeconfig(cfg *rest.Config, account, token string) ([]byte, error) {
	// Copies only the server and how it is trusted: nothing of the administrator.
	cfg = rest.AnonymousClientConfig(cfg)
	if err := rest.LoadTLSFiles(cfg); err != nil {
		return nil, fmt.Errorf("reading the certificate authority: %w", err)
	}
	out := clientcmdapi.NewConfig()
	out.Clusters["sandbar"] = &clientcmdapi.Cluster{
		Server: cfg.Host, CertificateAuthorityData: cfg.CAData,
		InsecureSkipTLSVerify: cfg.Insecure, TLSServerName: cfg.ServerName,
	}
	out.AuthInfos[account] = &clientcmdapi.AuthInfo{Token: token}
	out.Contexts["sandbar"] = &clientcmdapi.Context{Cluster: "sandbar", AuthInfo: account}
	out.CurrentContext = "sandbar"
	return clientcmd.Write(*out)
}

// writeSecret writes a file that only its owner may read, through a temporary one, so that a
// reader never sees half of it and the mode is right from the first byte on.
func writeSecret(path string, content []byte) (Action, error) {
	before, err := os.ReadFile(path)
	if err == nil && bytes.Equal(before, content) {
		return Unchanged, os.Chmod(path, 0o600)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	// CreateTemp makes it 0600.
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return "", err
	}
	// After the rename there is nothing to remove, before it nothing to keep.
	defer func() { _ = os.Remove(f.Name()) }()
	if _, err := f.Write(content); err != nil {
		return "", errors.Join(err, f.Close())
	}
	if err := f.Close(); err != nil {
		return "", err
	}
	return Written, os.Rename(f.Name(), path)
}
