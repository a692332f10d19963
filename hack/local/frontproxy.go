// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// FrontProxyName is the common name of the front proxy's client certificate.
const FrontProxyName = "sandbar-front-proxy"

// FrontProxy is kcp's own front proxy in front of a stack's kcp. It authenticates people by their
// tokens and says to the data plane, in headers, who they are.
type FrontProxy struct {
	// URL is its base URL, with the same CA as the data plane's.
	URL string
	// Path is where it mounts the data plane.
	Path string

	process *process
}

// FrontProxyCA makes the front proxy's client certificate and returns the file of the CA that
// signed it, for the data plane that is to believe it.
func (p *Provider) FrontProxyCA() (string, error) {
	certs, err := p.frontCertificates()
	return certs.ca, err
}

func (p *Provider) frontDir() string { return filepath.Join(p.Dir, "front-proxy") }

func (p *Provider) frontCertificates() (certificates, error) {
	if err := os.MkdirAll(p.frontDir(), 0o700); err != nil {
		return certificates{}, fmt.Errorf("making the front proxy's folder: %w", err)
	}
	return newClientCertificates(p.frontDir(), FrontProxyName)
}

// StartFrontProxy builds kcp's front proxy if need be, starts it in front of the stack's kcp and
// of a data plane, and waits until it is ready. There is one at a time.
func (p *Provider) StartFrontProxy(ctx context.Context, dataPlane string) (*FrontProxy, error) {
	const name = "front-proxy"
	if err := p.Stack.stop(name); err != nil {
		return nil, err
	}
	out, err := p.Stack.Run(ctx, "build", name)
	if err != nil {
		return nil, err
	}
	_, bin, found := strings.Cut(strings.TrimSpace(string(out)), "\t")
	if !found {
		return nil, fmt.Errorf("building the front proxy: no folder in %q", out)
	}
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	f := &FrontProxy{URL: "https://localhost:" + port, Path: "/services/providers/infrastructure"}
	mapping, err := p.writeMapping(f.Path, dataPlane)
	if err != nil {
		return nil, err
	}
	kcp, err := p.writeShardKubeconfig()
	if err != nil {
		return nil, err
	}
	f.process, err = p.start(ctx, name, f.URL, filepath.Join(bin, "kcp-front-proxy"), []string{
		"--bind-address=127.0.0.1", "--secure-port=" + port, "--root-directory=" + p.frontDir(),
		"--tls-cert-file=" + p.certs.cert, "--tls-private-key-file=" + p.certs.key,
		"--token-auth-file=" + filepath.Join(p.Stack.Dir, "tokens.csv"),
		"--mapping-file=" + mapping, "--root-kubeconfig=" + kcp, "--shards-kubeconfig=" + kcp,
	})
	return f, err
}

// writeMapping writes which paths lead where. JSON is YAML too.
func (p *Provider) writeMapping(path, dataPlane string) (string, error) {
	certs, err := p.frontCertificates()
	if err != nil {
		return "", err
	}
	data, err := json.Marshal([]map[string]string{{
		"path": path + "/", "backend": dataPlane, "backend_server_ca": p.certs.ca,
		"proxy_client_cert": certs.cert, "proxy_client_key": certs.key,
	}})
	if err != nil {
		return "", err
	}
	file := filepath.Join(p.frontDir(), "mapping.yaml")
	return file, os.WriteFile(file, data, 0o600)
}

// writeShardKubeconfig writes what the front proxy follows kcp's workspaces with: kcp's own
// administrator of the shard.
func (p *Provider) writeShardKubeconfig() (string, error) {
	config, err := clientcmd.LoadFromFile(filepath.Join(p.Stack.Dir, "kcp", "admin.kubeconfig"))
	if err != nil {
		return "", fmt.Errorf("reading kcp's own kubeconfig: %w", err)
	}
	config.CurrentContext = "shard-base"
	if err := errors.Join(clientcmdapi.MinifyConfig(config), clientcmdapi.FlattenConfig(config)); err != nil {
		return "", fmt.Errorf("reading kcp's own kubeconfig: %w", err)
	}
	file := filepath.Join(p.frontDir(), "shard.kubeconfig")
	return file, clientcmd.WriteToFile(*config, file)
}

// Stop asks the front proxy to end and returns when it is gone.
func (f *FrontProxy) Stop() error { return f.process.stop() }
