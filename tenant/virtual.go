// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package tenant

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"k8s.io/client-go/rest"

	"github.com/sandbar-dev/sandbar/pkg/export"
)

// The permission claim that a tenant accepts so that callers without a token can be asked about.
const (
	ClaimGroup    = "authorization.k8s.io"
	ClaimResource = "subjectaccessreviews"
	ClaimVerb     = "create"
)

// VirtualWorkspace is the bound workspaces as the provider sees them, through the virtual
// workspace of its APIExport on every shard. It knows the APIBindings, and it is what asks kcp
// about callers who have no credential of their own.
//
// It acts with the provider's credential, so it never answers whether a caller may: it asks kcp
// what a named subject may do, and reads objects for those of whom kcp has said yes (see Client).
type VirtualWorkspace struct {
	*export.Bindings

	transport http.RoundTripper
}

// NewVirtualWorkspace makes one for an APIExport by name. config leads to the provider workspace
// with the provider's identity. Nothing is sent until Run.
func NewVirtualWorkspace(config *rest.Config, exportName string, log *slog.Logger) (*VirtualWorkspace, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.Timeout = -1, 0
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, fmt.Errorf("reading the provider's identity: %w", err)
	}
	claim := export.Claim{Group: ClaimGroup, Resource: ClaimResource, Verb: ClaimVerb}
	bindings, err := export.NewBindings(config, &http.Client{Transport: transport}, exportName, claim, log)
	if err != nil {
		return nil, err
	}
	return &VirtualWorkspace{Bindings: bindings, transport: transport}, nil
}

// Ended is that of the bindings; false without any.
func (v *VirtualWorkspace) Ended(cluster string) bool { return v != nil && v.Bindings.Ended(cluster) }

// IsNew is that of the bindings; false without any.
func (v *VirtualWorkspace) IsNew(workspace string, within time.Duration) bool {
	return v != nil && v.Bindings.IsNew(workspace, within)
}

// at returns the URL of a workspace's binding in the virtual workspace; its segments are
// escaped, so that no value can add one.
func at(in export.Binding, segments ...string) (*url.URL, error) {
	base, err := url.Parse(in.Endpoint)
	if err != nil {
		return nil, fmt.Errorf("reading the address of a virtual workspace: %w", err)
	}
	return join(base, append([]string{"clusters", in.Cluster}, segments...)...), nil
}
