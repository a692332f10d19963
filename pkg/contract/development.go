// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"maps"
	"strings"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

const (
	// ModeField is what a graph's spec says of the field "mode" when its Template has a
	// development contract. The template controller adds it to a graph that does not.
	ModeField = `string | default="production" enum="production,development"`

	// DevelopmentStatus is the status field that belongs to Sandbar: it tells where the runners
	// are, and is filled in only while an instance is in development mode.
	DevelopmentStatus = "development"
	// ControlServiceField is the field of a component in DevelopmentStatus.
	ControlServiceField = "controlServiceRef"
	// ControlSecretField is the field of DevelopmentStatus that leads to the control token.
	ControlSecretField = "controlSecretRef"

	// ControlPort is the name of the runner's port of a component's control Service. The port at
	// which the component serves has its own name there.
	ControlPort = "control"
	// RunnerPort is the number of the runner's port.
	RunnerPort = 7070

	developmentPrefix = "status." + DevelopmentStatus + "."
)

// Complete returns the data-plane contract of a Template with the verbs that its development
// contract adds to its components. A verb that the Template declares itself stays as declared.
func Complete(spec *sandbarv1alpha1.TemplateSpec) *sandbarv1alpha1.DataPlane {
	dp := spec.DataPlane.DeepCopy()
	if spec.Development == nil || len(spec.Development.Components) == 0 {
		return dp
	}
	if dp.TokenSecretRef == "" {
		// Then the token is for runners alone, and they take proofs.
		dp.TokenSecretRef = developmentPrefix + ControlSecretField
		dp.ControlAuth = sandbarv1alpha1.ControlAuthProof
	}
	if dp.Components == nil {
		dp.Components = map[string]sandbarv1alpha1.Component{}
	}
	for name, component := range spec.Development.Components {
		endpoints := developmentEndpoints(name, &component)
		maps.Copy(endpoints, dp.Components[name].Endpoints)
		dp.Components[name] = sandbarv1alpha1.Component{Endpoints: endpoints}
	}
	return dp
}

// developmentEndpoints are the verbs of a component that runs under the runner.
func developmentEndpoints(name string, component *sandbarv1alpha1.DevelopmentComponent) map[string]sandbarv1alpha1.Endpoint {
	at := func(port, path string, methods ...string) sandbarv1alpha1.Endpoint {
		return sandbarv1alpha1.Endpoint{
			ServiceRef: developmentPrefix + name + "." + ControlServiceField,
			Port:       port, UpstreamPath: path, Methods: methods,
		}
	}
	log := at(ControlPort, "/logs", "GET")
	log.Stream = true
	changes := at(ControlPort, "/changes", "GET")
	changes.Stream = true
	exec := at(ControlPort, "/exec", "GET")
	exec.Upgrade = true
	endpoints := map[string]sandbarv1alpha1.Endpoint{
		"changes": changes,
		"env":     at(ControlPort, "/env", "GET", "POST"),
		"exec":    exec,
		"files":   at(ControlPort, "/files", "GET"),
		"log":     log,
		"process": at(ControlPort, "/status", "GET"),
		"restart": at(ControlPort, "/restart", "POST"),
		"sync":    at(ControlPort, "/sync", "POST"),
	}
	if component.Port != "" {
		proxy := at(component.Port, "/", "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
		proxy.Upgrade = true
		endpoints[ProxyVerb] = proxy
	}
	return endpoints
}

// OnlyInDevelopment tells whether a path in a runtime instance's status is filled in only while
// the instance is in development mode.
func OnlyInDevelopment(path string) bool { return strings.HasPrefix(path, developmentPrefix) }

// InDevelopment tells whether an instance, the tenant's or the runtime's, is to be in
// development mode. A kind without that mode never is.
func InDevelopment(instance map[string]any) bool {
	spec, _ := instance["spec"].(map[string]any)
	return spec["mode"] == string(sandbarv1alpha1.ModeDevelopment)
}
