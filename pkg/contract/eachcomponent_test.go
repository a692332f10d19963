// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// each is the contract of a kind of whose components the Template names one.
func each() *sandbarv1alpha1.DataPlane {
	log := sandbarv1alpha1.Endpoint{PodsOf: PodsOfComponent, PodSubresource: PodLog, Methods: []string{"GET"}, Stream: true}
	proxy := sandbarv1alpha1.Endpoint{PodsOf: PodsOfComponent, PodSubresource: PodProxy, Methods: []string{"GET"}}
	return &sandbarv1alpha1.DataPlane{
		Components: map[string]sandbarv1alpha1.Component{
			"named": {Endpoints: map[string]sandbarv1alpha1.Endpoint{"status": {From: FromInstanceStatus}}},
		},
		EachComponent: &sandbarv1alpha1.Component{Endpoints: map[string]sandbarv1alpha1.Endpoint{"log": log, "proxy": proxy}},
	}
}

func TestEachComponentOfTheTenantsHasItsVerbs(t *testing.T) {
	dp := each()
	for name, want := range map[string]bool{"web": true, "named": false, "": false} {
		if _, found := Find(dp, name, "log"); found != want {
			t.Errorf("the verb log of component %q is found: %t", name, found)
		}
	}
	if diff := cmp.Diff([]string{"components/*/log", "components/*/proxy", "components/*/proxy-url", "components/named/status", "renew"}, Verbs(dp)); diff != "" {
		t.Errorf("the kind's verbs (-want +got):\n%s", diff)
	}
	of := VerbsOf(dp, []string{"web", "named", "db"})
	want := []string{
		"components/db/log", "components/db/proxy", "components/db/proxy-url", "components/named/status",
		"components/web/log", "components/web/proxy", "components/web/proxy-url", "renew",
	}
	if diff := cmp.Diff(want, of); diff != "" {
		t.Errorf("an instance's verbs (-want +got):\n%s", diff)
	}
	if of := VerbsOf(dp, nil); slices.Contains(of, "components/*/log") {
		t.Errorf("of an instance without components: %v", of)
	}
	if diff := cmp.Diff([]string{"log", "proxy", "proxy-url", "renew", "status"}, Subresources(dp)); diff != "" {
		t.Errorf("what is authorized (-want +got):\n%s", diff)
	}
}

func TestWhatEachComponentHasIsChecked(t *testing.T) {
	const at = "spec.dataPlane.eachComponent"
	good := sandbarv1alpha1.Endpoint{PodsOf: PodsOfComponent, PodSubresource: PodLog, Methods: []string{"GET"}}
	with := func(edit func(*sandbarv1alpha1.Endpoint)) func(*sandbarv1alpha1.TemplateSpec) {
		return func(s *sandbarv1alpha1.TemplateSpec) {
			e := good
			edit(&e)
			s.DataPlane.EachComponent.Endpoints["log"] = e
		}
	}
	for name, row := range map[string]struct {
		edit func(*sandbarv1alpha1.TemplateSpec)
		want []string
	}{
		"a log": {edit: with(func(*sandbarv1alpha1.Endpoint) {})},
		"an empty list of verbs": {
			edit: func(s *sandbarv1alpha1.TemplateSpec) { s.DataPlane.EachComponent.Endpoints = nil },
			want: []string{at + ".endpoints: must have at least one verb"},
		},
		"one object for all components": {
			edit: with(func(e *sandbarv1alpha1.Endpoint) { e.PodsOf, e.PodRef = "", "status.parts.api.pod" }),
			want: []string{at + ".endpoints.log: podsOf is for the endpoints of " + at + ", which have no other target"},
		},
		"what the tenant's status has": {
			edit: with(func(e *sandbarv1alpha1.Endpoint) { *e = sandbarv1alpha1.Endpoint{From: FromInstanceStatus} }),
			want: []string{at + ".endpoints.log: podsOf is for the endpoints of " + at + ", which have no other target"},
		},
		"pods of a component that nobody names": {
			edit: func(s *sandbarv1alpha1.TemplateSpec) {
				s.DataPlane.Endpoints["log"], s.DataPlane.EachComponent = good, nil
			},
			want: []string{"spec.dataPlane.endpoints.log: podsOf is for the endpoints of " + at + ", which have no other target"},
		},
		"pods of something else": {
			edit: with(func(e *sandbarv1alpha1.Endpoint) { e.PodsOf = "Instance" }),
			want: []string{at + ".endpoints.log.podsOf: must be Component"},
		},
		"a log that would be written": {
			edit: with(func(e *sandbarv1alpha1.Endpoint) { e.Methods = []string{"POST"} }),
			want: []string{at + ".endpoints.log.methods: a pod's log can only be read: GET"},
		},
		"a path, which a pod's subresource has not": {
			edit: with(func(e *sandbarv1alpha1.Endpoint) { e.UpstreamPath = "/x" }),
			want: []string{at + ".endpoints.log.upstreamPath: means nothing beside a pod; remove it"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			spec := goodSpec()
			spec.DataPlane.EachComponent = &sandbarv1alpha1.Component{Endpoints: map[string]sandbarv1alpha1.Endpoint{}}
			row.edit(spec)
			var got []string
			for _, problem := range Check(spec) {
				got = append(got, problem.String())
			}
			if diff := cmp.Diff(row.want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}
