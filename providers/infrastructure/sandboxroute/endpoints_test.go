// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package sandboxroute

import (
	"fmt"
	"strings"
	"testing"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/route"
)

func TestEndpointsHaveTheSchemeOfTheListenersThatAreMeant(t *testing.T) {
	for parent, want := range map[string]string{
		`{namespace: edge, name: public}`:                     "https://shop.example.com/",
		`{namespace: edge, name: public, sectionName: plain}`: "http://shop.example.com/",
	} {
		w := newWorld(t)
		w.listeners = []route.Listener{{Name: "plain", Port: 80, Protocol: "HTTP"}, {Name: "tls", Port: 443, Protocol: "HTTPS"}}
		w.set(`{spec: {gateway: {parentRefs: [` + parent + `]}}}`)
		w.look()
		if got := w.status().Endpoints; len(got) != 1 || got[0].URL != want {
			t.Errorf("%s: %+v, want %s", parent, got, want)
		}
	}
}

func TestAStatusHasNoMoreEndpointsThanItsSchemaTakes(t *testing.T) {
	w := newWorld(t)
	var hostnames, matches []string
	for i := range 16 {
		hostnames = append(hostnames, fmt.Sprintf("s%d.example.com", i))
		matches = append(matches, fmt.Sprintf("{path: {type: PathPrefix, value: /p%d}}", i))
	}
	w.set(`{spec: {gateway: {hostnames: [` + strings.Join(hostnames, ", ") + `]}, rules: [{name: web, backends: [{component: {name: web, port: http}}], matches: [` + strings.Join(matches, ", ") + `]}]}}`)
	w.look()
	if got := w.status().Endpoints; len(got) != sandbarv1alpha1.MaxSandboxRouteEndpoints || got[63].URL != "https://s3.example.com/p15" {
		t.Errorf("%d endpoints: %+v", len(got), got)
	}
	w.set(`{spec: {gateway: {hostnames: [shop.example.org]}}}`)
	if w.look(); len(w.status().Endpoints) > 0 {
		t.Errorf("of a route that leads nowhere: %+v", w.status().Endpoints)
	}
}

func TestListenersOfAGateway(t *testing.T) {
	got := listenersOf(objectOf(t, `{apiVersion: a/v1, kind: Gateway, spec: {listeners: [{name: web, hostname: "*.example.com", port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}]}}`))
	if len(got) != 1 || got[0] != (route.Listener{Name: "web", Hostname: "*.example.com", Port: 80, Protocol: "HTTP"}) {
		t.Errorf("%+v", got)
	}
	if got := listenersOf(objectOf(t, `{apiVersion: a/v1, kind: Gateway, spec: {listeners: [{port: eighty}]}}`)); got != nil {
		t.Errorf("of what cannot be read: %+v", got)
	}
}
