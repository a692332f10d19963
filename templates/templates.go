// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package templates holds the Templates that come with Sandbar, one folder each. It only reads
// them; package install applies them. An operator's own Templates need nothing from here.
package templates

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

//go:embed */template.yaml
var files embed.FS

// ErrUnknown is the error of Get for a name that no built-in Template has.
var ErrUnknown = errors.New("no built-in Template of that name")

// gatewayGroup is the API group of the Gateway API.
const gatewayGroup = "gateway.networking.k8s.io"

// Names lists the built-in Templates, sorted.
func Names() []string {
	entries, err := fs.ReadDir(files, ".")
	if err != nil {
		panic(err) // the folder is part of the binary
	}
	names := make([]string, 0, len(entries))
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// Get returns a built-in Template by name. It returns ErrUnknown for a name that is not in Names.
func Get(name string) (*sandbarv1alpha1.Template, error) {
	if !slices.Contains(Names(), name) {
		return nil, fmt.Errorf("%w: %q (there are: %s)", ErrUnknown, name, strings.Join(Names(), ", "))
	}
	raw, err := files.ReadFile(name + "/template.yaml")
	if err != nil {
		return nil, fmt.Errorf("reading Template %s: %w", name, err)
	}
	t := &sandbarv1alpha1.Template{}
	if err := yaml.UnmarshalStrict(raw, t); err != nil {
		return nil, fmt.Errorf("parsing Template %s: %w", name, err)
	}
	return t, nil
}

// WithoutGateway returns a copy of the Template whose graph has no resources of the Gateway
// API, nor the fields of the status that come from one, and the ids of those it left out. kro refuses a graph with a kind that the runtime
// cluster does not serve, even when the resource would never be included; so on a cluster
// without that API, previews have no routes of their own and all else works.
func WithoutGateway(t *sandbarv1alpha1.Template) (*sandbarv1alpha1.Template, []string, error) {
	var graph map[string]any
	if err := json.Unmarshal(t.Spec.Graph.Raw, &graph); err != nil {
		return nil, nil, fmt.Errorf("parsing the graph of Template %s: %w", t.Name, err)
	}
	resources, _ := graph["resources"].([]any)
	var kept []any
	var dropped []string
	for _, r := range resources {
		if id, ok := gatewayResource(r); ok {
			dropped = append(dropped, id)
			continue
		}
		kept = append(kept, r)
	}
	graph["resources"] = kept
	if kind, ok := graph["schema"].(map[string]any); ok && len(dropped) > 0 {
		if status, ok := kind["status"].(map[string]any); ok {
			removeReferences(status, regexp.MustCompile(`\b(`+strings.Join(dropped, "|")+`)\.`))
		}
	}
	raw, err := json.Marshal(graph)
	if err != nil {
		return nil, nil, fmt.Errorf("writing the graph of Template %s: %w", t.Name, err)
	}
	out := t.DeepCopy()
	out.Spec.Graph.Raw = raw
	return out, dropped, nil
}

// removeReferences removes the fields whose expressions match, and the parents that have no other.
func removeReferences(fields map[string]any, references *regexp.Regexp) {
	maps.DeleteFunc(fields, func(_ string, value any) bool {
		switch v := value.(type) {
		case string:
			return references.MatchString(v)
		case map[string]any:
			removeReferences(v, references)
			return len(v) == 0
		default:
			return false
		}
	})
}

func gatewayResource(resource any) (id string, ok bool) {
	r, _ := resource.(map[string]any)
	object, _ := r["template"].(map[string]any)
	apiVersion, _ := object["apiVersion"].(string)
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil || gv.Group != gatewayGroup {
		return "", false
	}
	id, _ = r["id"].(string)
	return id, true
}
