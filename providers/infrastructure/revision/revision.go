// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package revision

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/contract"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/expression"
)

const (
	// Field is the field of a kro instance's spec that says which revision it is composed with.
	Field = contract.RevisionField
	// fieldType is Field in the graph's schema.
	fieldType = `string | default=""`

	// hashLength is how many hexadecimal digits of a SHA-256 name a graph, or the platform's values.
	hashLength = 8
	// suffixMark stands between a resource's id and the hash of its graph.
	suffixMark = "R"
	// MaxID is how long an id in a Template's graph may be: with its suffix it is the value of a
	// label, which has 63 characters.
	MaxID = 63 - len(suffixMark) - hashLength
)

// Graph is one revision of a Template's graph.
type Graph struct {
	// Hash names the graph by what it composes: its resources and its status. It is empty for a
	// graph that was stored before there were revisions, or by somebody else.
	Hash string `json:"hash"`
	// Spec is the spec of the ResourceGraphDefinition, completed by development, with the ids that
	// the Template's author wrote.
	Spec map[string]any `json:"spec"`
	// DataPlane is the contract that belongs to the graph.
	DataPlane sandbarv1alpha1.DataPlane `json:"dataPlane"`
}

// NewGraph names a graph. Fields of its schema that only tenants see, such as a description, are
// no other revision: nothing is composed of them.
func NewGraph(spec map[string]any, dataPlane *sandbarv1alpha1.DataPlane) (Graph, error) {
	schema, _ := spec["schema"].(map[string]any)
	hash, err := hashOf([]any{spec["resources"], schema["status"]})
	if err != nil {
		return Graph{}, fmt.Errorf("naming the graph: %w", err)
	}
	return Graph{Hash: hash, Spec: spec, DataPlane: *dataPlane}, nil
}

func hashOf(value any) (string, error) {
	raw, err := json.Marshal(value) // keys are sorted
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])[:hashLength], nil
}

// Of returns the name of the revision that the graph makes with the platform's values, and those of
// the values that the graph reads. A value that it does not read makes no other revision.
func (g Graph) Of(platform map[string]string) (name string, values map[string]string, err error) {
	uses, err := g.Platform()
	if err != nil {
		return "", nil, err
	}
	values = map[string]string{}
	for key, value := range platform {
		if uses.All || uses.Required[key] || uses.Optional[key] {
			values[key] = value
		}
	}
	hash, err := hashOf(values)
	if err != nil {
		return "", nil, fmt.Errorf("naming the platform's values: %w", err)
	}
	return g.Hash + "-" + hash, values, nil
}

// Platform tells which of the platform's values the graph reads.
func (g Graph) Platform() (*expression.Uses, error) {
	uses := expression.NewUses()
	ids := platformIDs(g.Spec)
	_, err := expression.Map(g.Spec, func(expr string) (string, error) {
		for _, id := range ids {
			if err := uses.Add(expr, id, "data"); err != nil {
				return "", err
			}
		}
		return expr, nil
	})
	return uses, err
}

// IsOf reports whether a revision of this name is one of the graph.
func (g Graph) IsOf(name string) bool { return g.Hash != "" && strings.HasPrefix(name, g.Hash+"-") }

// ConfigMap is the name of the ConfigMap with the platform's values of a revision.
func ConfigMap(name string) string { return placement.PlatformConfigMap + "-" + name }

// platformIDs are the ids of the resources that refer to the platform's ConfigMap.
func platformIDs(spec map[string]any) []string {
	resources, _ := spec["resources"].([]any)
	var ids []string
	for _, r := range resources {
		resource, _ := r.(map[string]any)
		if id, _ := resource["id"].(string); refersToPlatform(resource) {
			ids = append(ids, id)
		}
	}
	return ids
}

func refersToPlatform(resource map[string]any) bool {
	ref, _ := resource["externalRef"].(map[string]any)
	metadata, _ := ref["metadata"].(map[string]any)
	return ref["kind"] == "ConfigMap" && metadata["name"] == placement.PlatformConfigMap && metadata["namespace"] == placement.SystemNamespace
}

var suffixed = regexp.MustCompile(`\b([a-z][a-zA-Z0-9]*)` + suffixMark + `[0-9a-f]{8}\b`)

// Plain returns a text of kro with the ids of resources as the Template's author wrote them.
func Plain(text string) string { return suffixed.ReplaceAllString(text, "$1") }
