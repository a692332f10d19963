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
)

// Baseline is what tenants see of a provider's Baseline: workloads of the runtime cluster that the operator offers to the
// workspace. Texts are the provider's.
type Baseline struct {
	Name        string `json:"name"`
	DisplayName string `json:"displayName"`
	Description string `json:"description,omitempty"`
	// Aliases are the names of its namespaces, as Workloads and Services have them.
	Aliases []string `json:"aliases"`
	// Disclosure is Summary or Template: how much of a workload its copies show.
	Disclosure string `json:"disclosure"`
	// Ready reports whether all that the operator names was found.
	Ready bool `json:"ready"`
	// WorkloadsFound and ServicesFound are how many there are. The lists may have fewer.
	WorkloadsFound int                `json:"workloadsFound"`
	ServicesFound  int                `json:"servicesFound"`
	Workloads      []BaselineWorkload `json:"workloads,omitempty"`
	Services       []BaselineService  `json:"services,omitempty"`
	// Routing says where requests may be led to copies; nil: nowhere.
	Routing *BaselineRouting `json:"routing,omitempty"`
}

// BaselineRouting says where requests may be led to copies of a Baseline's workloads.
type BaselineRouting struct {
	// Gateways of the runtime cluster, or listeners of them.
	Gateways []BaselineGateway `json:"gateways,omitempty"`
	// Hostnames that tenants may name. *.example.com admits all names below example.com.
	Hostnames []string `json:"hostnames,omitempty"`
	// Proxy is set if proxies may be put in front of the Services.
	Proxy bool `json:"proxy,omitempty"`
}

// BaselineGateway is a Gateway, or one of its listeners.
type BaselineGateway struct {
	Namespace   string `json:"namespace"`
	Name        string `json:"name"`
	SectionName string `json:"sectionName,omitempty"`
}

// String writes NAMESPACE/NAME, or NAMESPACE/NAME/LISTENER.
func (g BaselineGateway) String() string {
	if g.SectionName == "" {
		return g.Namespace + "/" + g.Name
	}
	return g.Namespace + "/" + g.Name + "/" + g.SectionName
}

// BaselineWorkload is a Deployment, a StatefulSet or a Rollout of a Baseline.
type BaselineWorkload struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Namespace is one of the Baseline's aliases.
	Namespace  string              `json:"namespace"`
	Name       string              `json:"name"`
	Replicas   int32               `json:"replicas"`
	Containers []BaselineContainer `json:"containers,omitempty"`
}

// BaselineContainer is a container of a workload.
type BaselineContainer struct {
	Name  string         `json:"name"`
	Image string         `json:"image,omitempty"`
	Ports []BaselinePort `json:"ports,omitempty"`
}

// BaselineService is a Service of a Baseline.
type BaselineService struct {
	// Namespace is one of the Baseline's aliases.
	Namespace string         `json:"namespace"`
	Name      string         `json:"name"`
	Ports     []BaselinePort `json:"ports,omitempty"`
}

// BaselinePort is a port of a container or of a Service.
type BaselinePort struct {
	Name     string `json:"name,omitempty"`
	Port     int32  `json:"port"`
	Protocol string `json:"protocol,omitempty"`
}

// Baselines returns the Baselines that a data plane offers to a workspace, by the workspace's path or cluster name; with a
// name, the one that has it. It fails as [Client.Templates] does. A Baseline that is not offered to the workspace is not
// among them, and causes no error.
func (c *Client) Baselines(ctx context.Context, dataPlane, workspace, name string) ([]Baseline, error) {
	if err := checkSegments(workspace); err != nil {
		return nil, err
	}
	p, u, err := c.planeAt(dataPlane)
	if err != nil {
		return nil, err
	}
	u = u.JoinPath("dataplane", "clusters", workspace, "baselines")
	if name != "" {
		u.RawQuery = url.Values{"name": {name}}.Encode()
	}
	return catalogue[Baseline](ctx, p, u)
}

// catalogue reads the items of a catalogue at an address.
func catalogue[T any](ctx context.Context, p *plane, u *url.URL) ([]T, error) {
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
	var list struct {
		Items []T `json:"items"`
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, maxCatalogue)).Decode(&list); err != nil {
		return nil, fmt.Errorf("reading the catalogue: %w", err)
	}
	return list.Items, nil
}
