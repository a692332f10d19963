// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package route

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

func TestAHostnameIsAskedAsItsListenersTakeIt(t *testing.T) {
	plain, secure, pass := Listener{Name: "a", Port: 80, Protocol: "HTTP"}, Listener{Name: "b", Port: 443, Protocol: "HTTPS"}, Listener{Name: "c", Port: 443, Protocol: "TLS"}
	of := func(l Listener, hostname string) Listener {
		l.Hostname = hostname
		return l
	}
	for name, c := range map[string]struct {
		listeners []Listener
		want      string
	}{
		"no listener is known":                       {nil, "https"},
		"one without TLS":                            {[]Listener{plain}, "http"},
		"one with, and one without":                  {[]Listener{plain, secure}, "https"},
		"one that passes TLS on":                     {[]Listener{plain, pass}, "https"},
		"that with TLS is for another name":          {[]Listener{plain, of(secure, "other.example.com")}, "http"},
		"that without is for a wildcard of the name": {[]Listener{of(plain, "*.example.com")}, "http"},
		"all are for other names":                    {[]Listener{of(plain, "example.org")}, "https"},
	} {
		if got := schemeOf("shop.example.com", c.listeners); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestAParentMeansListeners(t *testing.T) {
	all := []Listener{{Name: "a", Port: 80}, {Name: "b", Port: 443}, {Name: "c", Port: 443}}
	for name, c := range map[string]struct {
		parent sandbarv1alpha1.SandboxRouteParent
		want   []Listener
	}{
		"a Gateway":           {sandbarv1alpha1.SandboxRouteParent{}, all},
		"a listener of it":    {sandbarv1alpha1.SandboxRouteParent{SectionName: "b"}, all[1:2]},
		"a port":              {sandbarv1alpha1.SandboxRouteParent{Port: 443}, all[1:]},
		"neither is there":    {sandbarv1alpha1.SandboxRouteParent{SectionName: "a", Port: 443}, nil},
		"another is not that": {sandbarv1alpha1.SandboxRouteParent{SectionName: "d"}, nil},
	} {
		if diff := cmp.Diff(c.want, ListenersOf(all, &c.parent)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
