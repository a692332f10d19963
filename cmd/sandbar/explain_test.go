// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/sandbar-dev/sandbar/client/object/objecttest"
)

func TestExplainShowsTheFieldsOfAKind(t *testing.T) {
	w := newWorld(t)
	withSchema(t, w.stocked(t))
	w.transcript(t, "explain.golden", []turn{
		{name: "a kind", args: "explain sandboxset"},
		{name: "a kind by its group, and a field", args: "explain sandboxsets.sandbar.dev.spec"},
		{name: "a kind by its group and version", args: "explain SandboxSet.v1alpha1.sandbar.dev.spec.replicas"},
		{name: "the elements of a list", args: "explain sbs.spec.containers"},
		{name: "a field of the elements of a list", args: "explain sbs.spec.containers.image"},
		{name: "the values of a map", args: "explain sbs.spec.zones.weight"},
		{name: "values to choose from", args: "explain sandbox.spec.visibility"},
		{name: "all fields", args: "explain sbs --recursive"},
		{name: "all fields below one", args: "explain sandbox.spec --recursive"},
		{name: "a field that is almost there", args: "explain sandbox.spec.lifecycel.sleepAfterUnused"},
		{name: "a field that is not there", args: "explain sandbox.status.phase"},
		{name: "a field of a text", args: "explain sandbox.spec.displayName.x"},
		{name: "a kind that is not there", args: "explain pods.spec"},
		{name: "a kind that is almost there", args: "explain sandboxs.spec"},
		{name: "a kind without a schema", args: "explain sandboxrunner"},
		{name: "a field without a name", args: "explain sandbox..spec"},
		{name: "an object", args: "explain sandbox/web"},
		{name: "nothing", args: "explain"},
		{name: "two kinds", args: "explain sandbox sandboxset"},
	})
}

// A kind of another group than Sandbar's is found without the right to list APIBindings, if its group is named.
func TestExplainFindsAKindByItsGroupAlone(t *testing.T) {
	w := newWorld(t)
	s := w.stocked(t)
	s.Kinds = append(s.Kinds, objecttest.Kind{GVK: schema.GroupVersionKind{Group: "things.example.com", Version: "v1", Kind: "Thing"}, Resource: "things"})
	s.OpenAPI = map[string]string{"things.example.com/v1": `{
		"paths": {"/apis/things.example.com/v1/things": {"get": {"x-kubernetes-group-version-kind": {"group": "things.example.com", "version": "v1", "kind": "Thing"}}}},
		"components": {"schemas": {"thing": {
			"x-kubernetes-group-version-kind": [{"group": "things.example.com", "version": "v1", "kind": "Thing"}],
			"properties": {"spec": {"properties": {"size": {"type": "integer", "description": "How large it is."}}}}
		}}}}`}
	if code, stdout, stderr := w.run(t, "explain", "things.things.example.com.spec.size"); code != 0 || !strings.Contains(stdout, "How large it is.") {
		t.Errorf("%d %s%s", code, stdout, stderr)
	}
	for _, r := range s.Requests() {
		if strings.Contains(r, "example.com.spec") {
			t.Errorf("it asks for %s, although the group is found", r)
		}
	}
}

// The descriptions are those of a provider.
func TestExplainKeepsTheTerminalFromADescription(t *testing.T) {
	w := newWorld(t)
	withSchema(t, w.stocked(t))
	a := w.atTerminal(t, "explain", "sandboxset.spec.replicas")
	await(t, a.screen, "are to be")
	a.ends(0)
	if screen := a.screen.String(); strings.Contains(screen, "\x1b[2J") {
		t.Errorf("%q", screen)
	}
}

func TestFieldsAreCompletedFromTheSchema(t *testing.T) {
	w := newWorld(t)
	withSchema(t, w.stocked(t))
	for word, want := range map[string]string{
		"sandboxse":               "sandboxsets=SandboxSet",
		"sandbox.sp":              "sandbox.spec",
		"sandboxset.spec.":        "sandboxset.spec.containers sandboxset.spec.replicas sandboxset.spec.zones",
		"sbs.spec.containers.im":  "sbs.spec.containers.image",
		"sbs.sandbar.dev.spec.r":  "sbs.sandbar.dev.spec.replicas",
		"sandbox.spec.nothing.":   "",
		"pods.spec.":              "",
		"sandboxrunner.spec.":     "",
		"sandbox.metadata.labels": "sandbox.metadata.labels",
	} {
		if got := w.completed(t, "explain", word); got != want {
			t.Errorf("%q is completed by %q, want %q", word, got, want)
		}
	}
}
