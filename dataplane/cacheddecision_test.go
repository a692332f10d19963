// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sandbar-dev/sandbar/dataplane/access"
	"github.com/sandbar-dev/sandbar/tenant"
)

// BenchmarkCachedDecision is what a request pays to be let on when kcp's answer is kept: the step
// authorize of the chain, with a token of a usual length. make bench-authz reports it.
func BenchmarkCachedDecision(b *testing.B) {
	a, err := access.New(nil, nil, access.Options{CacheSize: 1024, Concurrency: 1}, nil, access.NewMetrics(prometheus.NewRegistry()))
	if err != nil {
		b.Fatal(err)
	}
	h := &handler{authorizer: a}
	x := &exchange{request: request(b, http.MethodGet, "/", ""), question: access.Question{
		Caller: tenant.Bearer(strings.Repeat("t", 900)), Subresource: "proxy", Verb: "get", Declared: true,
		Ref: tenant.Ref{
			Workspace: "root:acme:dev", Group: "sandbar.dev", Version: "v1alpha1", Resource: "sandboxrunners",
			Namespace: "default", Name: "demo",
		},
	}}
	a.KeepForTest(x.question, access.Grant{Owner: demoOwner}, nil, 10*time.Second)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%100000 == 0 { // longer than an answer is kept
			a.KeepForTest(x.question, access.Grant{Owner: demoOwner}, nil, 10*time.Second)
		}
		if g, refused := h.authorize(x); refused != nil || !g.Cached {
			b.Fatal(g, refused)
		}
	}
}
