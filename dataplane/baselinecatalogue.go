// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"encoding/json"
	"net/http"

	"k8s.io/apimachinery/pkg/api/meta"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/dataplane/refusal"
)

// maxBaselineCatalogue bounds an answer, in bytes of what is in its items. Those that do not fit any more come without
// workloads and Services; a caller gets one whole by its name.
const maxBaselineCatalogue = 4 << 20

// baselineCatalogue is what the catalogue of Baselines answers.
type baselineCatalogue struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Items      []baselineItem `json:"items"`
}

// baselineItem is what tenants see of a Baseline: namespaces by their aliases alone, and neither conditions, whose messages
// name those of the runtime cluster, nor the workspaces that see it too.
type baselineItem struct {
	Name        string `json:"name"`
	DisplayName string `json:"displayName"`
	Description string `json:"description,omitempty"`
	// Aliases are the names of its namespaces for tenants.
	Aliases    []string                           `json:"aliases"`
	Disclosure sandbarv1alpha1.BaselineDisclosure `json:"disclosure"`
	// Ready tells that all that the operator names was found.
	Ready bool `json:"ready"`
	// WorkloadsFound and ServicesFound are how many there are. Fewer may be listed.
	WorkloadsFound int32                             `json:"workloadsFound"`
	ServicesFound  int32                             `json:"servicesFound"`
	Workloads      []baselineWorkload                `json:"workloads,omitempty"`
	Services       []sandbarv1alpha1.BaselineService `json:"services,omitempty"`
	// Routing is what tenants have to name for requests to be led to copies; nil for none.
	Routing *baselineRouting `json:"routing,omitempty"`
}

// baselineRouting has Gateways by their names on the runtime cluster, since tenants write these.
type baselineRouting struct {
	Gateways  []sandbarv1alpha1.BaselineParent `json:"gateways,omitempty"`
	Hostnames []string                         `json:"hostnames,omitempty"`
	// Proxy is set if proxies may be put in front of the Services.
	Proxy bool `json:"proxy,omitempty"`
}

type baselineWorkload struct {
	APIVersion string `json:"apiVersion"`
	sandbarv1alpha1.BaselineWorkload
}

// apiVersionOf is that of a workload of a kind.
func apiVersionOf(kind sandbarv1alpha1.BaselineWorkloadKind) string {
	if kind == sandbarv1alpha1.BaselineRollout {
		return "argoproj.io/v1alpha1"
	}
	return "apps/v1"
}

// baselineItemOf makes an item. What the status says counts only for the spec of which it speaks: the operator may have taken
// out what it still lists.
func baselineItemOf(b *sandbarv1alpha1.Baseline) baselineItem {
	item := baselineItem{
		Name: b.Name, DisplayName: b.Spec.DisplayName, Description: b.Spec.Description, Disclosure: b.Spec.Disclosure, Aliases: []string{},
	}
	if item.DisplayName == "" {
		item.DisplayName = b.Name
	}
	if item.Disclosure == "" {
		item.Disclosure = sandbarv1alpha1.BaselineDisclosureSummary
	}
	aliases := map[string]string{}
	for _, namespace := range b.Spec.Namespaces {
		aliases[namespace.Name] = namespace.Alias()
		item.Aliases = append(item.Aliases, namespace.Alias())
	}
	if admitted := b.Spec.Routing.Gateway; len(admitted.ParentRefs) > 0 && len(admitted.Hostnames) > 0 { // of one without the other nothing is admitted
		item.Routing = &baselineRouting{Gateways: admitted.ParentRefs, Hostnames: admitted.Hostnames}
	}
	if b.Spec.Routing.Proxy.Enabled {
		if item.Routing == nil {
			item.Routing = &baselineRouting{}
		}
		item.Routing.Proxy = true
	}
	if b.Status.ObservedGeneration != b.Generation {
		return item
	}
	item.Ready = meta.IsStatusConditionTrue(b.Status.Conditions, sandbarv1alpha1.BaselineReady)
	item.WorkloadsFound, item.ServicesFound = b.Status.WorkloadsFound, b.Status.ServicesFound
	for _, w := range b.Status.Workloads {
		if alias, ok := aliases[w.Namespace]; ok {
			w.Namespace = alias
			item.Workloads = append(item.Workloads, baselineWorkload{apiVersionOf(w.Kind), w})
		}
	}
	for _, s := range b.Status.Services {
		if alias, ok := aliases[s.Namespace]; ok {
			s.Namespace = alias
			item.Services = append(item.Services, s)
		}
	}
	return item
}

// fitting returns the items, in as many bytes as there may be.
func fitting(items []baselineItem, most int) []baselineItem {
	for i := range items {
		encoded, err := json.Marshal(items[i])
		if err != nil || len(encoded) > most {
			items[i].Workloads, items[i].Services = nil, nil
			continue
		}
		most -= len(encoded)
	}
	return items
}

// serveBaselines answers the Baselines that admit the caller's workspace; with the query name, the one that has it. One
// that admits another workspace and one that does not exist make no difference to any answer.
func (h *handler) serveBaselines(x *exchange) *refusal.Error {
	if !h.baselines.known() || !h.bound.Synced() {
		return refusal.Unavailable(refusal.CauseStarting, "the catalogue of Baselines is being read: try again", 0, nil)
	}
	list := baselineCatalogue{
		APIVersion: "dataplane." + sandbarv1alpha1.GroupVersion.String(), Kind: "BaselineCatalogue", Items: []baselineItem{},
	}
	name := x.request.URL.Query().Get("name")
	for _, b := range h.baselines.admitting(h.pathOf(x.route.Workspace)) {
		if name == "" || name == b.Name {
			list.Items = append(list.Items, baselineItemOf(b))
		}
	}
	list.Items = fitting(list.Items, maxBaselineCatalogue)
	refusal.WriteJSON(x, x.request, http.StatusOK, list)
	return nil
}

// pathOf is the path of a workspace, given by that or by its logical cluster's name; empty if it has not bound the export.
// It is the one that kcp's admission has written on the APIBinding, over the value that its tenant put there.
//
// The attack: a workspace gets the path of another onto its binding nevertheless, and asks by its logical cluster's name. A
// path that two workspaces have counts for neither.
func (h *handler) pathOf(workspace string) string {
	binding, found := h.bound.Find(workspace)
	if !found {
		return ""
	}
	if at, unique := h.bound.Find(binding.Path); !unique || at.Cluster != binding.Cluster {
		return ""
	}
	return binding.Path
}
