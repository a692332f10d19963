// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
)

func TestTheDomainOfAClusterIsTheOneOfItsServices(t *testing.T) {
	for name, c := range map[string]struct{ content, want string }{
		"of a kubelet":       {"search shop.svc.cluster.local svc.cluster.local cluster.local\nnameserver 10.96.0.10\noptions ndots:5\n", "cluster.local"},
		"of another domain":  {"nameserver 10.96.0.10\nsearch shop.svc.corp.example svc.corp.example. corp.example\n", "corp.example"},
		"of a machine":       {"nameserver 192.0.2.1\nsearch example.org\n", ""},
		"without a search":   {"nameserver 192.0.2.1\n", ""},
		"empty":              {"", ""},
		"what a comment has": {"# search svc.example\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "resolv.conf")
			if err := os.WriteFile(file, []byte(c.content), 0o600); err != nil {
				t.Fatal(err)
			}
			if got := clusterDomain(file); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	if got := clusterDomain(filepath.Join(t.TempDir(), "none")); got != "" {
		t.Errorf("without a file it is %q", got)
	}
}

func TestANameOfAServiceIsAbsolute(t *testing.T) {
	for _, c := range []struct{ address, domain, want string }{
		{"web.shop.svc:80", "cluster.local", "web.shop.svc.cluster.local.:80"},
		{"web.shop.svc:80", "", "web.shop.svc:80"},
		{"10.96.0.1:80", "cluster.local", "10.96.0.1:80"},
		{"[fd00::1]:80", "cluster.local", "[fd00::1]:80"},
		{"web.shop.svc.cluster.local:80", "cluster.local", "web.shop.svc.cluster.local:80"},
		{"localhost:80", "cluster.local", "localhost:80"},
	} {
		if got := absolute(c.address, c.domain); got != c.want {
			t.Errorf("%s in %q is %s, want %s", c.address, c.domain, got, c.want)
		}
	}
}

// The whole way: what is dialled is the absolute name, which resolves nowhere here.
func TestACopyIsLookedForByItsAbsoluteName(t *testing.T) {
	p, err := New(Options{Service: service, Namespace: "demo"}, &handed{})
	if err != nil {
		t.Fatal(err)
	}
	p.domain = "cluster.invalid"
	p.dialer.Resolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("away") }}
	var dns *net.DNSError
	if _, err := p.dial(t.Context(), "web.shop.svc:80"); !errors.As(err, &dns) || dns.Name != "web.shop.svc.cluster.invalid." {
		t.Errorf("looked for: %v", err)
	}
}
