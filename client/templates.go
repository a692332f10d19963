// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// maxCatalogue bounds a catalogue.
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
	return catalogue[Template](ctx, p, u.JoinPath("dataplane", "clusters", workspace, "templates"))
}
