// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package catalogue

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/sandbar-dev/sandbar/client/object/objecttest"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/clitest"
)

func TestExplainShowsTheFieldsOfAKind(t *testing.T) {
	w := newWorld(t)
	clitest.WithSchema(t, w.Stocked(t))
	w.Transcript(t, "explain.golden", []clitest.Turn{
		{Name: "a kind", Args: "explain sandboxset"},
		{Name: "a kind by its group, and a field", Args: "explain sandboxsets.sandbar.dev.spec"},
		{Name: "a kind by its group and version", Args: "explain SandboxSet.v1alpha1.sandbar.dev.spec.replicas"},
		{Name: "the elements of a list", Args: "explain sbs.spec.containers"},
		{Name: "a field of the elements of a list", Args: "explain sbs.spec.containers.image"},
		{Name: "the values of a map", Args: "explain sbs.spec.zones.weight"},
		{Name: "values to choose from", Args: "explain sandbox.spec.visibility"},
		{Name: "all fields", Args: "explain sbs --recursive"},
		{Name: "all fields below one", Args: "explain sandbox.spec --recursive"},
		{Name: "a field that is almost there", Args: "explain sandbox.spec.lifecycel.sleepAfterUnused"},
		{Name: "a field that is not there", Args: "explain sandbox.status.phase"},
		{Name: "a field of a text", Args: "explain sandbox.spec.displayName.x"},
		{Name: "a kind that is not there", Args: "explain pods.spec"},
		{Name: "a kind that is almost there", Args: "explain sandboxs.spec"},
		{Name: "a kind without a schema", Args: "explain sandboxrunner"},
		{Name: "a field without a name", Args: "explain sandbox..spec"},
		{Name: "an object", Args: "explain sandbox/web"},
		{Name: "nothing", Args: "explain"},
		{Name: "two kinds", Args: "explain sandbox sandboxset"},
	})
}

// A kind of another group than Sandbar's is found without the right to list APIBindings, if its group is named.
func TestExplainFindsAKindByItsGroupAlone(t *testing.T) {
	w := newWorld(t)
	s := w.Stocked(t)
	s.Kinds = append(s.Kinds, objecttest.Kind{GVK: schema.GroupVersionKind{Group: "things.example.com", Version: "v1", Kind: "Thing"}, Resource: "things"})
	s.OpenAPI = map[string]string{"things.example.com/v1": `{
		"paths": {"/apis/things.example.com/v1/things": {"get": {"x-kubernetes-group-version-kind": {"group": "things.example.com", "version": "v1", "kind": "Thing"}}}},
		"components": {"schemas": {"thing": {
			"x-kubernetes-group-version-kind": [{"group": "things.example.com", "version": "v1", "kind": "Thing"}],
			"properties": {"spec": {"properties": {"size": {"type": "integer", "description": "How large it is."}}}}
		}}}}`}
	if code, stdout, stderr := w.Run(t, "explain", "things.things.example.com.spec.size"); code != 0 || !strings.Contains(stdout, "How large it is.") {
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
	clitest.WithSchema(t, w.Stocked(t))
	a := w.AtTerminal(t, "explain", "sandboxset.spec.replicas")
	clitest.Await(t, a.Screen, "are to be")
	a.Ends(0)
	if screen := a.Screen.String(); strings.Contains(screen, "\x1b[2J") {
		t.Errorf("%q", screen)
	}
}

func TestFieldsAreCompletedFromTheSchema(t *testing.T) {
	w := newWorld(t)
	clitest.WithSchema(t, w.Stocked(t))
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
		if got := w.Completed(t, "explain", word); got != want {
			t.Errorf("%q is completed by %q, want %q", word, got, want)
		}
	}
}
