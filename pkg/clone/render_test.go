// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package clone

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/golden"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// row is a file of testdata/render or testdata/refused.
type row struct {
	// Why says what the row shows.
	Why string `json:"why"`
	// Source is a file of testdata/sources.
	Source string `json:"source"`
	// Group defaults to storefront-preview.
	Group     string                                `json:"group"`
	Component sandbarv1alpha1.SandboxGroupComponent `json:"component"`
	Rules     struct {
		Images             sandbarv1alpha1.BaselineImages     `json:"images"`
		References         sandbarv1alpha1.BaselineReferences `json:"references"`
		Limits             sandbarv1alpha1.BaselineLimits     `json:"limits"`
		LabelPrefixes      []string                           `json:"labelPrefixes"`
		AnnotationPrefixes []string                           `json:"annotationPrefixes"`
	} `json:"rules"`
	Searches []string `json:"searches"`
}

func input(t testing.TB, r *row) Input {
	t.Helper()
	group := "storefront-preview"
	if r.Group != "" {
		group = r.Group
	}
	return Input{
		Group: group, Component: &r.Component, Snapshot: frozen(t, r.Source),
		Rules: Rules{
			Baseline: "shop", Images: r.Rules.Images, References: r.Rules.References, Limits: r.Rules.Limits,
			LabelPrefixes: r.Rules.LabelPrefixes, AnnotationPrefixes: r.Rules.AnnotationPrefixes,
		},
		Labels:    placement.ID{Origin: "2hx1zq5kq0a8v3mw", UID: "our-uid"}.Labels("sandbox-group"),
		SandboxID: "sbx-abcd1234",
		Searches:  r.Searches,
	}
}

// document is what a golden file shows of a copy.
func document(t testing.TB, r *Rendered) []byte {
	t.Helper()
	var text bytes.Buffer
	show := func(part any) {
		out, err := yaml.Marshal(part)
		if err != nil {
			t.Fatal(err)
		}
		text.WriteString("---\n")
		text.Write(out)
	}
	show(r.Deployment)
	show(r.Service)
	for _, claim := range r.Claims {
		show(claim)
	}
	show(map[string]any{"configMaps": r.ConfigMaps, "secrets": r.Secrets, "serviceAccount": r.ServiceAccount, "notes": r.Notes})
	return text.Bytes()
}

func rows(t testing.TB, folder string) map[string]*row {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", folder, "*.in.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("testdata/%s has no rows: %v", folder, err)
	}
	all := map[string]*row{}
	for _, file := range files {
		r := &row{}
		read(t, filepath.Join(folder, filepath.Base(file)), r)
		if r.Why == "" {
			t.Errorf("%s does not say why it is there", file)
		}
		all[strings.TrimSuffix(file, ".in.yaml")] = r
	}
	return all
}

func TestWhatIsRendered(t *testing.T) {
	for name, row := range rows(t, "render") {
		t.Run(filepath.Base(name), func(t *testing.T) {
			first, err := Render(input(t, row))
			if err != nil {
				t.Fatal(err)
			}
			second, err := Render(input(t, row))
			if err != nil {
				t.Fatal(err)
			}
			shown := document(t, first)
			if !bytes.Equal(shown, document(t, second)) {
				t.Error("two renders of one input differ")
			}
			golden.Check(t, name+".golden.yaml", shown)
			sound(t, row, first)
		})
	}
}

func TestWhatIsRefused(t *testing.T) {
	for name, row := range rows(t, "refused") {
		t.Run(filepath.Base(name), func(t *testing.T) {
			_, err := Render(input(t, row))
			var refused *RefusedError
			if !errors.As(err, &refused) {
				t.Fatalf("err = %v, want a refusal", err)
			}
			golden.Check(t, name+".golden.txt", []byte(string(refused.Reason)+": "+refused.Message+"\n"))
		})
	}
}

func TestARenderDoesNotChangeItsInput(t *testing.T) {
	for name, row := range rows(t, "render") {
		in := input(t, row)
		before, err := yaml.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Render(in); err != nil {
			t.Fatal(err)
		}
		if after, _ := yaml.Marshal(in); !bytes.Equal(before, after) {
			t.Errorf("%s: the input has changed:\n%s\nwas\n%s", name, after, before)
		}
	}
}

func TestARenderNeedsAllOfItsInput(t *testing.T) {
	_, err := Render(Input{})
	var refused *RefusedError
	if err == nil || errors.As(err, &refused) {
		t.Errorf("err = %v, want one that is the caller's mistake", err)
	}
}

func TestTheDefaultServiceAccountIsNotMade(t *testing.T) {
	for name, want := range map[string]string{"default": "", "web": "web", "": ""} {
		r := &rendering{}
		r.template.Spec.ServiceAccountName = name
		if got := r.account(); got != want {
			t.Errorf("%q: %q", name, got)
		}
	}
}
