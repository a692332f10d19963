// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

func TestEndpointsOfPodsAreChecked(t *testing.T) {
	const ref = "status.parts.api.ref"
	shell := sandbarv1alpha1.Endpoint{PodRef: ref, PodSubresource: PodExec, Methods: []string{"GET"}, Upgrade: true}
	anyPort := sandbarv1alpha1.Endpoint{PodRef: ref, PodSubresource: PodProxy, Methods: []string{"GET", "POST"}, Upgrade: true}
	with := func(e sandbarv1alpha1.Endpoint, edit func(*sandbarv1alpha1.Endpoint)) sandbarv1alpha1.Endpoint {
		edit(&e)
		return e
	}
	for name, tc := range map[string]struct {
		verb     string
		endpoint sandbarv1alpha1.Endpoint
		edit     func(*sandbarv1alpha1.TemplateSpec)
		want     []string
	}{
		"exec is sound":            {verb: "exec", endpoint: shell},
		"exec in one container is": {verb: "exec", endpoint: with(shell, func(e *sandbarv1alpha1.Endpoint) { e.Container = "main" })},
		"attach is":                {verb: "attach", endpoint: with(shell, func(e *sandbarv1alpha1.Endpoint) { e.PodSubresource = PodAttach })},
		"portforward is":           {verb: "port-forward", endpoint: with(shell, func(e *sandbarv1alpha1.Endpoint) { e.PodSubresource = PodPortForward })},
		"proxy to any port is":     {verb: "proxy", endpoint: anyPort},
		"proxy with a default is":  {verb: "proxy", endpoint: with(anyPort, func(e *sandbarv1alpha1.Endpoint) { e.Port = "8080" })},
		"no subresource": {
			verb: "exec", endpoint: with(shell, func(e *sandbarv1alpha1.Endpoint) { e.PodSubresource = "" }),
			want: []string{"podSubresource: must be one of log, exec, attach, portforward, proxy"},
		},
		"exec without upgrade": {
			verb: "exec", endpoint: with(shell, func(e *sandbarv1alpha1.Endpoint) { e.Upgrade = false }),
			want: []string{"upgrade: must be true: a pod's exec is a WebSocket"},
		},
		"exec with POST, another right for the same shell": {
			verb: "exec", endpoint: with(shell, func(e *sandbarv1alpha1.Endpoint) { e.Methods = []string{"GET", "POST"} }),
			want: []string{"methods: must be GET alone: a WebSocket begins with it"},
		},
		"a container for portforward, which reaches all of them": {
			verb: "port-forward", endpoint: with(shell, func(e *sandbarv1alpha1.Endpoint) { e.PodSubresource, e.Container = PodPortForward, "main" }),
			want: []string{"container: means nothing beside podSubresource: portforward; remove it"},
		},
		"a shell behind the verb proxy, whose upgrades a right to read allows": {
			verb: "proxy", endpoint: shell, want: []string{"podSubresource: must be proxy for the verb proxy"},
		},
		"any port behind another verb": {
			verb: "web", endpoint: anyPort, want: []string{"podSubresource: may be proxy for the verb proxy only"},
		},
		"a default port that is none": {
			verb: "proxy", endpoint: with(anyPort, func(e *sandbarv1alpha1.Endpoint) { e.Port = "65536" }),
			want: []string{"port: must be the name of a container's port or a number from 1 to 65535"},
		},
		"any port beside a Service's port that asks for no token": {
			verb: "proxy", endpoint: anyPort,
			edit: func(s *sandbarv1alpha1.TemplateSpec) {
				s.DataPlane.TokenSecretRef = ""
				s.DataPlane.Endpoints["sync"] = sandbarv1alpha1.Endpoint{ServiceRef: "status.controlServiceRef", Port: "control", Methods: []string{"POST"}}
			},
			want: []string{"podSubresource: leads to every port of the pod, and with it perhaps to that of verb sync, which asks for no token: set tokenSecretRef, or remove one of the verbs"},
		},
		"any port beside a Service's port that asks for the token": {
			verb: "proxy", endpoint: anyPort,
			edit: func(s *sandbarv1alpha1.TemplateSpec) {
				s.DataPlane.Endpoints["sync"] = sandbarv1alpha1.Endpoint{ServiceRef: "status.controlServiceRef", Port: "control", Methods: []string{"POST"}}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			spec := goodSpec()
			spec.DataPlane.Components = nil
			spec.DataPlane.Endpoints = map[string]sandbarv1alpha1.Endpoint{tc.verb: tc.endpoint}
			if tc.edit != nil {
				tc.edit(spec)
			}
			var got, want []string
			for _, p := range Check(spec) {
				got = append(got, p.String())
			}
			for _, p := range tc.want {
				want = append(want, "spec.dataPlane.endpoints."+tc.verb+"."+p)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatMayNameAPort(t *testing.T) {
	for port, want := range map[string]bool{
		"1": true, "65535": true, "http": true, "web-1": true, "8080x": true, "a-very-long-one": true,
		"": false, "0": false, "65536": false, "080": false, "+80": false, "-1": false, "8 0": false, "99999999999999999999": false,
		"-web": false, "web-": false, "a--b": false, "HTTP": false, "a.b": false, "a/b": false, "sixteen-letters-": false, "exactly-sixteen1": false,
	} {
		if got := IsPort(port); got != want {
			t.Errorf("IsPort(%q) = %v, want %v", port, got, want)
		}
	}
}
