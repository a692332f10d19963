// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// refPrefix begins a reference from one schema to another.
const refPrefix = "#/components/schemas/"

// property is what an OpenAPI document says of a field, as far as values are checked against it. The whole of OpenAPI
// would come with libraries that every program with the client would link.
type property struct {
	Ref         string               `json:"$ref"`
	AllOf       []*property          `json:"allOf"`
	Type        string               `json:"type"`
	Description string               `json:"description"`
	Enum        []any                `json:"enum"`
	Properties  map[string]*property `json:"properties"`
	Items       *property            `json:"items"`
	// Additional is true, false or the schema of fields with any name.
	Additional  json.RawMessage           `json:"additionalProperties"`
	Open        bool                      `json:"x-kubernetes-preserve-unknown-fields"`
	IntOrString bool                      `json:"x-kubernetes-int-or-string"`
	Kinds       []schema.GroupVersionKind `json:"x-kubernetes-group-version-kind"`
}

// Schema is what a kind's objects may have, as the workspace describes it.
type Schema struct {
	kind     Kind
	root     *property
	all      map[string]*property
	document []byte
}

// Schema reads the schema of a kind.
func (c *Client) Schema(ctx context.Context, k Kind) (*Schema, error) {
	body, err := c.raw.Get().AbsPath("openapi", "v3", "apis", k.Resource.Group, k.Resource.Version).
		SetHeader("Accept", "application/json").Do(ctx).Raw()
	if err != nil {
		return nil, fmt.Errorf("reading the schema of %s: %w", k.Resource.Resource, err)
	}
	var document struct {
		Components struct {
			Schemas map[string]*property `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(body, &document); err != nil {
		return nil, fmt.Errorf("reading the schema of %s: %w", k.Resource.Resource, err)
	}
	for _, s := range document.Components.Schemas {
		if slices.Contains(s.Kinds, k.GVK()) {
			return &Schema{kind: k, root: s, all: document.Components.Schemas, document: body}, nil
		}
	}
	return nil, fmt.Errorf("the workspace has no schema of %s: write the object in a file and create it with -f", k.Resource.Resource)
}

// SetError means that a value cannot be set in an object of a kind.
type SetError struct{ Setting, Problem string }

// Error implements error.
func (e *SetError) Error() string { return fmt.Sprintf("%q: %s", e.Setting, e.Problem) }

// Set sets one field of an object, by "path=value". A path names fields with dots between them, and elements of a
// list as in spec.tags[0]; a dot within a name is written \. It is below spec, unless it begins with spec or
// metadata. The value is read as the type that the schema has there: a text as it is, and lists and objects as
// YAML. An error is a [SetError].
func (s *Schema) Set(object map[string]any, setting string) error {
	text, value, ok := strings.Cut(setting, "=")
	if !ok {
		return &SetError{setting, "write PATH=VALUE, for example spec.displayName=Shop"}
	}
	steps, problem := parseSteps(text)
	if problem != "" {
		return &SetError{setting, problem}
	}
	if steps[0].name != "spec" && steps[0].name != "metadata" {
		steps = append([]step{{name: "spec"}}, steps...)
	}
	at, problem := s.walk(steps)
	if problem != "" {
		return &SetError{setting, problem}
	}
	typed, problem := s.read(at, value)
	if problem != "" {
		return &SetError{setting, fmt.Sprintf("%s %s", pathOf(steps), problem)}
	}
	if _, problem = put(object, steps, typed); problem != "" {
		return &SetError{setting, problem}
	}
	return nil
}

// step is one step of a path: the name of a field, or the index of an element.
type step struct {
	name    string
	index   int
	element bool
}

func pathOf(steps []step) string {
	var path strings.Builder
	for _, s := range steps {
		switch {
		case s.element:
			fmt.Fprintf(&path, "[%d]", s.index)
		case path.Len() > 0:
			path.WriteString("." + s.name)
		default:
			path.WriteString(s.name)
		}
	}
	return path.String()
}

// maxElements bounds the index of an element, so that a typo does not make a list of a billion.
const maxElements = 1000

func parseSteps(text string) (steps []step, problem string) {
	const dot = "\x00" // no flag can have it
	for part := range strings.SplitSeq(strings.ReplaceAll(text, `\.`, dot), ".") {
		name, rest, _ := strings.Cut(part, "[")
		if name == "" {
			return nil, "the path has an empty name"
		}
		steps = append(steps, step{name: strings.ReplaceAll(name, dot, ".")})
		for rest != "" {
			number, after, closed := strings.Cut(rest, "]")
			index, err := strconv.Atoi(number)
			if err != nil || !closed || index < 0 || after != "" && after[0] != '[' {
				return nil, fmt.Sprintf("%q is not an element of a list, such as tags[0]", strings.ReplaceAll(part, dot, "."))
			}
			if index >= maxElements {
				return nil, fmt.Sprintf("the index %d is above %d", index, maxElements-1)
			}
			steps = append(steps, step{element: true, index: index})
			rest = strings.TrimPrefix(after, "[")
		}
	}
	return steps, ""
}

// walk returns the schema at a path; nil where anything goes.
func (s *Schema) walk(steps []step) (at *property, problem string) {
	at = s.resolve(s.root)
	for i, next := range steps {
		switch {
		case at == nil:
			return nil, ""
		case !next.element:
			below, known := s.field(at, next.name)
			if !known {
				return nil, s.unknown(at, steps[:i], next.name)
			}
			at = s.resolve(below)
		case at.Items == nil:
			return nil, pathOf(steps[:i]) + " is not a list"
		default:
			at = s.resolve(at.Items)
		}
	}
	return at, ""
}

// field returns the schema of a field; nil if any value goes.
func (s *Schema) field(at *property, name string) (below *property, known bool) {
	if p, ok := at.Properties[name]; ok {
		return p, true
	}
	if len(at.Additional) > 0 && string(at.Additional) != "false" {
		below = &property{}
		if err := json.Unmarshal(at.Additional, below); err != nil {
			return nil, true // "true": fields of any name and value
		}
		return below, true
	}
	return nil, at.Open || at.Type == "" && len(at.Properties) == 0
}

// unknown says which fields there are instead of one that there is not.
func (s *Schema) unknown(at *property, before []step, name string) string {
	where := s.kind.Name
	if len(before) > 0 {
		where += "'s " + pathOf(before)
	}
	if len(at.Properties) == 0 {
		return fmt.Sprintf("%s has no fields: it is of type %s", where, at.Type)
	}
	return fmt.Sprintf("%s has no field %s; it has %s", where, name, strings.Join(slices.Sorted(maps.Keys(at.Properties)), ", "))
}

// resolve follows references between schemas.
func (s *Schema) resolve(at *property) *property {
	for range 10 { // no chain of references is as long, and one could lead back to itself
		switch {
		case at == nil:
			return nil
		case at.Ref != "":
			at = s.all[strings.TrimPrefix(at.Ref, refPrefix)]
		case len(at.AllOf) == 1 && len(at.Properties) == 0:
			at = at.AllOf[0]
		default:
			return at
		}
	}
	return nil
}

// read reads a value as the type of a schema.
func (s *Schema) read(at *property, text string) (value any, problem string) {
	if at == nil {
		return readYAML(text)
	}
	if problem := at.enumProblem(text); problem != "" {
		return nil, problem
	}
	if at.IntOrString {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n, ""
		}
		return text, ""
	}
	var err error
	switch at.Type {
	case "string":
		return text, ""
	case "integer":
		if value, err = strconv.ParseInt(text, 10, 64); err != nil {
			return nil, fmt.Sprintf("is a whole number, and not %q", text)
		}
		return value, ""
	case "number":
		if value, err = strconv.ParseFloat(text, 64); err != nil {
			return nil, fmt.Sprintf("is a number, and not %q", text)
		}
		return value, ""
	case "boolean":
		if text != "true" && text != "false" {
			return nil, fmt.Sprintf("is true or false, and not %q", text)
		}
		return text == "true", ""
	}
	return at.readWhole(text)
}

// enumProblem returns why a value is not one of those that a field may have.
func (p *property) enumProblem(text string) string {
	var known []string
	for _, e := range p.Enum {
		if fmt.Sprint(e) == text {
			return ""
		}
		known = append(known, fmt.Sprint(e))
	}
	if len(known) == 0 {
		return ""
	}
	return fmt.Sprintf("is one of %s, and not %q", strings.Join(known, ", "), text)
}

// readWhole reads a list or an object.
func (p *property) readWhole(text string) (value any, problem string) {
	if value, problem = readYAML(text); problem != "" {
		return nil, problem
	}
	_, isList := value.([]any)
	_, isObject := value.(map[string]any)
	switch {
	case p.Type == "array" && !isList:
		return nil, fmt.Sprintf("is a list, for example [a, b], and not %q", text)
	case p.Type == "object" && !isObject:
		return nil, fmt.Sprintf("is an object, for example {a: b}, and not %q", text)
	}
	return value, ""
}

func readYAML(text string) (value any, problem string) {
	if err := yaml.Unmarshal([]byte(text), &value); err != nil {
		return nil, fmt.Sprintf("is not YAML: %q", text)
	}
	if n, ok := value.(float64); ok && n == float64(int64(n)) {
		return int64(n), ""
	}
	return value, ""
}

// put writes a value at a path, and returns what the path begins at.
func put(in any, steps []step, value any) (any, string) {
	if len(steps) == 0 {
		return value, ""
	}
	next := steps[0]
	if !next.element {
		object, ok := in.(map[string]any)
		if in != nil && !ok {
			return nil, fmt.Sprintf("the object has a value where %s is to have fields", next.name)
		}
		if object == nil {
			object = map[string]any{}
		}
		below, problem := put(object[next.name], steps[1:], value)
		object[next.name] = below
		return object, problem
	}
	list, ok := in.([]any)
	if in != nil && !ok {
		return nil, fmt.Sprintf("the object has a value where [%d] is to be an element", next.index)
	}
	if next.index > len(list) {
		return nil, fmt.Sprintf("the element [%d] would leave a gap: the list has %d", next.index, len(list))
	}
	if next.index == len(list) {
		list = append(list, nil)
	}
	below, problem := put(list[next.index], steps[1:], value)
	list[next.index] = below
	return list, problem
}
