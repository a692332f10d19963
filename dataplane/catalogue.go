// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"net/http"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/dataplane/access"
	"github.com/sandbar-dev/sandbar/dataplane/locate"
	"github.com/sandbar-dev/sandbar/dataplane/refusal"
	"github.com/sandbar-dev/sandbar/tenant"
)

// catalogue is what the catalogue of Templates answers.
type catalogue struct {
	APIVersion string          `json:"apiVersion"`
	Kind       string          `json:"kind"`
	Items      []catalogueItem `json:"items"`
}

// catalogueItem is what tenants see of a Template: never its graph, and nothing of the runtime
// cluster.
type catalogueItem struct {
	Name        string `json:"name"`
	DisplayName string `json:"displayName"`
	Description string `json:"description,omitempty"`
	Category    string `json:"category,omitempty"`
	Version     string `json:"version"`
	// InstanceAPIVersion, InstanceKind and Resource tell how to create an instance.
	InstanceAPIVersion string `json:"instanceAPIVersion"`
	InstanceKind       string `json:"instanceKind"`
	Resource           string `json:"resource"`
	// Verbs are the verbs of an instance, as in its status.dataPlane.verbs.
	Verbs []string `json:"verbs"`
	// Development tells of the components that run from what is synced to them while an
	// instance's spec.mode is "development".
	Development map[string]developed `json:"development,omitempty"`
	// OffersPod tells that a Sandbox may name this Template in spec.template.templateRef.
	OffersPod bool                           `json:"offersPod,omitempty"`
	Agent     *sandbarv1alpha1.AgentGuidance `json:"agent,omitempty"`
}

// developed is what a client needs to know of a component: which part of the project is its.
type developed struct {
	WorkspacePath string `json:"workspacePath"`
}

func developmentOf(t *sandbarv1alpha1.Template) map[string]developed {
	if t.Spec.Development == nil {
		return nil
	}
	components := map[string]developed{}
	for name, component := range t.Spec.Development.Components {
		components[name] = developed{WorkspacePath: component.WorkspacePath}
	}
	return components
}

// serveCatalogue answers a catalogue to callers with access to the workspace.
func (h *handler) serveCatalogue(x *exchange, caller tenant.Caller) *refusal.Error {
	if x.request.Method != http.MethodGet && x.request.Method != http.MethodHead {
		return refusal.MethodNotAllowed([]string{http.MethodGet, http.MethodHead})
	}
	x.question = access.Question{Caller: caller, Ref: tenant.Ref{Workspace: x.route.Workspace}, WorkspaceOnly: true, From: x.request.RemoteAddr}
	if _, refused := h.authorize(x); refused != nil {
		return refused
	}
	if x.route.Catalogue == locate.BaselinesSegment {
		return h.serveBaselines(x)
	}
	return h.serveTemplates(x)
}

// serveTemplates answers the Templates. They are the same for all workspaces.
func (h *handler) serveTemplates(x *exchange) *refusal.Error {
	list := catalogue{
		APIVersion: "dataplane." + sandbarv1alpha1.GroupVersion.String(), Kind: "TemplateCatalogue",
		Items: []catalogueItem{},
	}
	for _, k := range h.kinds.All() {
		t := k.Template
		list.Items = append(list.Items, catalogueItem{
			Name: t.Name, DisplayName: t.Spec.DisplayName, Description: t.Spec.Description,
			Category: t.Spec.Category, Version: t.Spec.Version,
			InstanceAPIVersion: k.Resource.GroupVersion().String(), InstanceKind: t.Status.Kind,
			Resource: k.Resource.Resource, Verbs: k.Verbs, Development: developmentOf(t),
			OffersPod: t.Spec.Base != nil, Agent: t.Spec.Agent,
		})
	}
	refusal.WriteJSON(x, x.request, http.StatusOK, list)
	return nil
}
