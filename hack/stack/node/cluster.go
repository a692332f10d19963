// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/sandbar-dev/sandbar/hack/stack/unit"
)

//go:embed manifests/cluster.yaml
var clusterManifest string

//go:embed manifests/kro.yaml
var kroManifest string

// Kubectl runs kubectl with the kubeconfig and returns what it printed.
func Kubectl(ctx context.Context, kubectl, kubeconfig, stdin string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, kubectl, args...)
	cmd.Args[0] = "kubectl"
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	cmd.Stdin = strings.NewReader(stdin)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return string(out), nil
}

func (n Node) kubectl(ctx context.Context, stdin string, args ...string) (string, error) {
	return Kubectl(ctx, n.Bin("node", "kubectl"), n.Dir.Kubeconfig("runtime-admin"), stdin, args...)
}

// WaitForAPI waits until the API server is ready to serve.
func (n Node) WaitForAPI(ctx context.Context) error {
	err := unit.Poll(ctx, func() bool {
		attempt, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		_, err := n.kubectl(attempt, "", "get", "--raw", "/readyz")
		return err == nil
	})
	if err != nil {
		return fmt.Errorf("waiting for the API server: %w", err)
	}
	return nil
}

// Install applies the CRDs of kro and of the Gateway API and the cluster's own
// services. It changes nothing when all is there.
func (n Node) Install(ctx context.Context) error {
	if err := n.InstallCRDs(ctx); err != nil {
		return err
	}
	manifest := strings.ReplaceAll(clusterManifest, "$(DNS)", n.Net.DNS.String())
	if _, err := n.kubectl(ctx, manifest, "apply", "--server-side", "--force-conflicts", "-f", "-"); err != nil {
		return fmt.Errorf("installing the cluster's services: %w", err)
	}
	return nil
}

// InstallCRDs applies the CRDs of kro and of the Gateway API, and the identity and rights of kro.
func (n Node) InstallCRDs(ctx context.Context) error {
	crds := []string{
		"apply", "--server-side", "--force-conflicts",
		"-f", filepath.Dir(n.Bin("kro", "crds/x")), "-f", filepath.Dir(n.Bin("gatewayapi", "crds/x")),
	}
	if _, err := n.kubectl(ctx, "", crds...); err != nil {
		return fmt.Errorf("installing the CRDs: %w", err)
	}
	if _, err := n.kubectl(ctx, kroManifest, "apply", "--server-side", "--force-conflicts", "-f", "-"); err != nil {
		return fmt.Errorf("installing the rights of kro: %w", err)
	}
	return nil
}

// timeoutFlag has kubectl wait for as long as the context lasts, five minutes without an end.
func timeoutFlag(ctx context.Context) string {
	deadline, ok := ctx.Deadline()
	if !ok {
		return "--timeout=300s"
	}
	return fmt.Sprintf("--timeout=%ds", int(time.Until(deadline).Seconds()))
}

// WaitReady waits until the node takes pods, names resolve and kro is ready.
func (n Node) WaitReady(ctx context.Context) error {
	timeout := timeoutFlag(ctx)
	// The node's object appears when kubelet has registered it.
	if _, err := n.kubectl(ctx, "", "wait", "--for=create", "node/node", timeout); err != nil {
		return err
	}
	if _, err := n.kubectl(ctx, "", "wait", "--for=condition=Ready", "node/node", timeout); err != nil {
		return err
	}
	if _, err := n.kubectl(ctx, "", "wait", "--for=condition=Available", "-n", "kube-system", "deployment/coredns", timeout); err != nil {
		return err
	}
	if err := n.waitForDNS(ctx); err != nil {
		return err
	}
	return n.waitForKro(ctx)
}
