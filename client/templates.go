// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// maxCatalogue bounds the catalogue of Templates.
const maxCatalogue = 16 << 20

// Template is what tenants see of a provider's Template: the kind that it defines, and what the kind is for. Texts are
// the provider's.
type Template struct {
	Name        string `json:"name"`
	DisplayName string `json:"displayName"`
	Description string `json:"description,omitempty"`
	// Category groups Templates, for example Developer or Database.
	Category string `json:"category,omitempty"`
	Version  string `json:"version"`
	// InstanceAPIVersion, InstanceKind and Resource say how to create an instance.
	InstanceAPIVersion string `json:"instanceAPIVersion"`
	InstanceKind       string `json:"instanceKind"`
	Resource           string `json:"resource"`
	// Verbs are those of an instance's data plane.
	Verbs []string `json:"verbs"`
	// Development has the components that can be developed, by name.
	Development map[string]DevelopedComponent `json:"development,omitempty"`
	// OffersPod reports whether a Sandbox may name this Template in spec.template.templateRef.
	OffersPod bool `json:"offersPod,omitempty"`
	// Agent says when to choose this Template, and what an instance offers.
	Agent *sandbarv1alpha1.AgentGuidance `json:"agent,omitempty"`
}

// Templates returns the Templates that a data plane offers to a workspace, by the workspace's path or cluster name. It
// fails with [ErrSegment] if that cannot be a name, with an [UntrustedError] if the data plane may not get the caller's
// credential, and with a [CallError] if it refuses.
func (c *Client) Templates(ctx context.Context, dataPlane, workspace string) ([]Template, error) {
	if err := checkSegments(workspace); err != nil {
		return nil, err
	}
	p, u, err := c.planeAt(dataPlane)
	if err != nil {
		return nil, err
	}
	return p.catalogue(ctx, u.JoinPath("dataplane", "clusters", workspace, "templates"))
}

// catalogue reads the Templates at an address.
func (p *plane) catalogue(ctx context.Context, u *url.URL) ([]Template, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("reading the catalogue: %w", err)
	}
	res, err := p.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("reading the catalogue: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("reading the catalogue: %w", readError(res, ""))
	}
	var catalogue struct {
		Items []Template `json:"items"`
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, maxCatalogue)).Decode(&catalogue); err != nil {
		return nil, fmt.Errorf("reading the catalogue: %w", err)
	}
	return catalogue.Items, nil
}
