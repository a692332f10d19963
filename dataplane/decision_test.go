// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"net/http"
	"strings"
	"testing"

	"github.com/sandbar-dev/sandbar/tenant"
)

// BenchmarkCachedDecision is what a request pays to be let on when kcp's answer is kept: the step
// authorize of the chain, with a token of a usual length. make bench-authz reports it.
func BenchmarkCachedDecision(b *testing.B) {
	a, err := newAuthorizer(nil, nil, Options{AuthorizationCacheSize: 1024, AuthorizationConcurrency: 1}, nil, newMetrics("test"))
	if err != nil {
		b.Fatal(err)
	}
	h := &handler{authorizer: a}
	x := &exchange{request: request(b, http.MethodGet, "/", ""), question: question{
		caller: tenant.Bearer(strings.Repeat("t", 900)), subresource: "proxy", verb: "get", declared: true,
		ref: tenant.Ref{
			Workspace: "root:acme:dev", Group: "sandbar.dev", Version: "v1alpha1", Resource: "sandboxrunners",
			Namespace: "default", Name: "demo",
		},
	}}
	a.keep(x.question.key(), answer{grant: grant{id: demoID}})
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%100000 == 0 { // longer than an answer is kept
			a.keep(x.question.key(), answer{grant: grant{id: demoID}})
		}
		if g, refused := h.authorize(x); refused != nil || !g.cached {
			b.Fatal(g, refused)
		}
	}
}
