// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"net/http"
	"testing"
	"time"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/dataplane/locate"
)

// Counting must not be what a request costs: no lock that all requests share, no allocation.
func TestCountingARequestDoesNotAllocate(t *testing.T) {
	m := NewMetrics("test")
	o := &Outcome{
		Kind:  &locate.Kind{Template: aTemplate(), Resource: sandboxrunners},
		Route: locate.Route{Verb: "sync", Resource: "sandboxrunners"}, FirstByte: time.Millisecond,
		Code: http.StatusOK, Took: time.Millisecond,
	}
	m.Observe(o)
	if n := testing.AllocsPerRun(100, func() {
		m.Enter(o)
		m.Observe(o)
	}); n > 1 { // enter's way to leave
		t.Errorf("%v allocations for a request", n)
	}
}

func BenchmarkCountRequest(b *testing.B) {
	m := NewMetrics("test")
	o := &Outcome{
		Kind:  &locate.Kind{Template: aTemplate(), Resource: sandboxrunners},
		Route: locate.Route{Verb: "sync", Resource: "sandboxrunners"}, FirstByte: time.Millisecond,
		Code: http.StatusOK, Took: time.Millisecond,
	}
	b.ReportAllocs()
	for b.Loop() {
		m.Enter(o)()
		m.Observe(o)
	}
}

var sandboxrunners = sandbarv1alpha1.GroupVersion.WithResource("sandboxrunners")

// aTemplate has the verb sync.
func aTemplate() *sandbarv1alpha1.Template {
	t := &sandbarv1alpha1.Template{}
	t.Spec.DataPlane.Endpoints = map[string]sandbarv1alpha1.Endpoint{"sync": {}}
	return t
}
