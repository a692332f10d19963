// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	_ "embed"
	"encoding/base64"
	"fmt"
	"os"
	"strings"

	"github.com/sandbar-dev/sandbar/hack/stack/pki"
)

//go:embed manifests/gateway.yaml
var gatewayManifest string

// The Gateway that InstallGateway makes.
const (
	GatewayNamespace = "gateway"
	GatewayName      = "previews"
	// SignedPrefix is before the domain in hosts that the Gateway can lead to a data plane, which asks who calls.
	SignedPrefix = "signed."
)

// Gateway is where a stack's Gateway is.
type Gateway struct {
	// Domain is that whose subdomains the Gateway serves, by HTTPS at port 443.
	Domain string
	// Address is the IP address of its Service, which this machine reaches.
	Address string
	// CAFile has the certificate of the authority that its certificate is from.
	CAFile string
}

// InstallGateway installs the Gateway API controller, whose image the node has, with a Gateway for the subdomains of a
// domain, and waits until the Gateway serves. It changes nothing when all is there.
func (n Node) InstallGateway(ctx context.Context, domain string) (*Gateway, error) {
	authority, err := pki.Open(n.Dir.PKI())
	if err != nil {
		return nil, err
	}
	// In a certificate a wildcard stands for one label.
	subject := pki.Subject{File: "gateway-" + domain, User: domain, Hosts: []string{"*." + domain, "*." + SignedPrefix + domain}}
	if err := authority.Issue(subject); err != nil {
		return nil, err
	}
	manifest := strings.ReplaceAll(gatewayManifest, "$(DOMAIN)", domain)
	for placeholder, file := range map[string]string{"$(CERT)": authority.Cert(subject.File), "$(KEY)": authority.Key(subject.File)} {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("reading the Gateway's certificate: %w", err)
		}
		manifest = strings.ReplaceAll(manifest, placeholder, base64.StdEncoding.EncodeToString(data))
	}
	if _, err := n.kubectl(ctx, manifest, "apply", "--server-side", "--force-conflicts", "-f", "-"); err != nil {
		return nil, fmt.Errorf("installing the Gateway: %w", err)
	}
	address, err := n.waitForGateway(ctx)
	if err != nil {
		return nil, err
	}
	return &Gateway{Domain: domain, Address: address, CAFile: authority.Cert("ca")}, nil
}

// waitForGateway waits until the controller runs and has programmed the Gateway, and returns its address.
func (n Node) waitForGateway(ctx context.Context) (string, error) {
	for object, condition := range map[string]string{"deployment/traefik": "Available", "gateway/" + GatewayName: "Programmed"} {
		if _, err := n.kubectl(ctx, "", "wait", object, "-n", GatewayNamespace, "--for=condition="+condition, timeoutFlag(ctx)); err != nil {
			return "", err
		}
	}
	address, err := n.kubectl(ctx, "", "get", "service", "traefik", "-n", GatewayNamespace, "-o", "jsonpath={.spec.clusterIP}")
	return strings.TrimSpace(address), err
}
