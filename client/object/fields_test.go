// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestTheFieldsBelowAFieldAreListed(t *testing.T) {
	server, c := newWorkspace(t)
	withOpenAPI(t, server)
	sets, err := c.Kind(t.Context(), "sandboxsets")
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.Schema(t.Context(), sets)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"":                      "metadata spec",
		"metadata":              "labels name",
		"metadata.labels":       "",
		"spec":                  "containers replicas zones",
		"spec.containers":       "image name",
		"spec.containers.image": "",
		"spec.zones":            "weight",
		"spec.zones.weight":     "",
	} {
		got, err := s.Fields(steps(path)...)
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%q has %v (%v), want %s", path, got, err, want)
		}
	}
	if !bytes.Contains(s.Document(), []byte("SandboxSet keeps Sandboxes ready.")) {
		t.Errorf("the document is %.80q", s.Document())
	}
}

func TestAFieldThatDoesNotExistIsNamedWithThoseBesideIt(t *testing.T) {
	s := testSchema(t)
	for path, want := range map[string]string{
		"sepc":               "Sandbox has no field sepc; Sandbox has apiVersion, kind, metadata, spec, status",
		"spec.lifecycle.end": "Sandbox has no field spec.lifecycle.end; spec.lifecycle has sleepAfterUnused",
		"spec.env.PATH":      "Sandbox has no field spec.env.PATH; the schema names no fields of spec.env",
		"spec.pod.x.y":       "Sandbox has no field spec.pod.x; the schema names no fields of spec.pod",
	} {
		_, err := s.Fields(steps(path)...)
		var unknown *UnknownFieldError
		if text(err) != want || !errors.As(err, &unknown) || unknown.Kind != "Sandbox" {
			t.Errorf("%q: %v, want %s", path, err, want)
		}
	}
}

// A schema may lead back to itself, and then has fields without an end.
func TestASchemaOfItselfHasFieldsAtEachDepth(t *testing.T) {
	tree := &property{Ref: refPrefix + "tree"}
	s := &Schema{kind: Kind{Name: "Tree"}, root: tree, all: map[string]*property{
		"tree": {Properties: map[string]*property{"children": {Items: tree}}},
		"loop": {Ref: refPrefix + "loop"},
	}}
	if got, err := s.Fields(slices.Repeat([]string{"children"}, 50)...); err != nil || len(got) != 1 {
		t.Errorf("%v %v", got, err)
	}
	s.root = &property{Ref: refPrefix + "loop"}
	if got, err := s.Fields(); err != nil || len(got) > 0 {
		t.Errorf("%v %v", got, err)
	}
}

func steps(path string) []string {
	if path == "" {
		return nil
	}
	return strings.Split(path, ".")
}
