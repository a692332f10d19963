// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package revision

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/expression"
)

// ErrShape is the error of Merge for a status field that is an object in one revision and a value
// in another.
var ErrShape = errors.New("cannot change its shape")

// Merge returns the spec of a ResourceGraphDefinition that composes each instance with the revision
// of its spec.sandbarRevision: target, or one of former. loose leaves the types of status fields
// that several revisions have to the instance; kro infers them from the graph otherwise.
func Merge(target Graph, former []Graph, loose bool) (map[string]any, error) {
	graphs := append([]Graph{target}, former...)
	spec := runtime.DeepCopyJSON(target.Spec)
	schema, _ := spec["schema"].(map[string]any)
	if schema == nil {
		return nil, errors.New("spec.graph.schema is missing")
	}
	var resources []any
	statuses := make([]branch, 0, len(graphs))
	for i, condition := range conditions(graphs) {
		g := graphs[i]
		own, err := g.resources(condition)
		if err != nil {
			return nil, err
		}
		resources = append(resources, own...)
		theirs, _ := g.Spec["schema"].(map[string]any)
		status, err := expression.Map(theirs["status"], g.rename)
		if err != nil {
			return nil, err
		}
		statuses = append(statuses, branch{condition: condition, value: status})
		for _, part := range []string{"spec", "types"} {
			if merged := union(schema[part], theirs[part]); merged != nil {
				schema[part] = merged
			}
		}
	}
	status, err := choose("status", statuses, loose)
	if err != nil {
		return nil, err
	}
	if status != nil {
		schema["status"] = status
	}
	fields, _ := schema["spec"].(map[string]any)
	if fields == nil {
		fields = map[string]any{}
	}
	fields[Field] = fieldType
	schema["spec"] = fields
	spec["resources"] = resources
	return spec, nil
}

// conditions are, for each graph, when its resources are included. Exactly one of them is true of
// any value of the field, also of one that nobody has written: kro deletes what was included and is
// not any more. A graph without a name takes what the others do not claim, and so does the first if
// all have names. A single graph needs no condition.
func conditions(graphs []Graph) []string {
	rest := max(slices.IndexFunc(graphs, func(g Graph) bool { return g.Hash == "" }), 0)
	out := make([]string, len(graphs))
	if len(graphs) == 1 {
		return out
	}
	var others []string
	for i, g := range graphs {
		if i != rest {
			out[i] = g.claims()
			others = append(others, out[i])
		}
	}
	out[rest] = "!(" + strings.Join(others, " || ") + ")"
	return out
}

// claims is an expression that is true of the revisions of the graph.
func (g Graph) claims() string {
	return "schema.spec." + Field + ".startsWith(" + expression.Literal(g.Hash+"-") + ")"
}

// id is the id of a resource of the graph beside those of others.
func (g Graph) id(plain string) string {
	if g.Hash == "" {
		return plain
	}
	return plain + suffixMark + g.Hash
}

// rename gives the resources in an expression their ids beside those of others.
func (g Graph) rename(expr string) (string, error) {
	own := map[string]bool{}
	resources, _ := g.Spec["resources"].([]any)
	for _, r := range resources {
		resource, _ := r.(map[string]any)
		id, _ := resource["id"].(string)
		own[id] = true
	}
	return expression.Rename(expr, func(id string) string {
		if own[id] {
			return g.id(id)
		}
		return id
	})
}

// resources are those of the graph, for the instances of which a condition is true.
func (g Graph) resources(condition string) ([]any, error) {
	list, _ := g.Spec["resources"].([]any)
	out := make([]any, 0, len(list))
	for _, r := range list {
		plain, _ := r.(map[string]any)
		id, _ := plain["id"].(string)
		changed, err := expression.Map(plain, g.rename)
		if err != nil {
			return nil, fmt.Errorf("resource %s: %w", id, err)
		}
		resource, _ := changed.(map[string]any)
		resource["id"] = g.id(id)
		if condition != "" {
			includeWhen, _ := resource["includeWhen"].([]any)
			resource["includeWhen"] = append(slices.Clone(includeWhen), expression.Wrap(condition))
		}
		if g.Hash != "" && refersToPlatform(plain) {
			g.pinPlatform(resource)
		}
		out = append(out, resource)
	}
	return out, nil
}

// pinPlatform makes a reference to the platform's values one to those of the instance's revision.
// An instance without one gets those of now.
func (g Graph) pinPlatform(resource map[string]any) {
	ref, _ := resource["externalRef"].(map[string]any)
	metadata, _ := ref["metadata"].(map[string]any)
	metadata["name"] = expression.Wrap(g.claims() + " ? " + expression.Literal(ConfigMap("")) + " + schema.spec." + Field +
		" : " + expression.Literal(placement.PlatformConfigMap))
}

// union adds to what the first has of a schema what only the second has.
func union(first, second any) any {
	fields, isObject := first.(map[string]any)
	others, otherIsObject := second.(map[string]any)
	if first == nil {
		return second
	}
	if !isObject || !otherIsObject {
		return first
	}
	merged := maps.Clone(fields)
	for name, other := range others {
		merged[name] = union(fields[name], other)
	}
	return merged
}

// branch is what a revision says of a status field.
type branch struct {
	condition string
	value     any
}

// choose makes one status of those of all revisions: a field that several have is that of the
// instance's revision, and one that a single revision has is missing from other instances, because
// the resources that it reads are not included.
func choose(path string, branches []branch, loose bool) (any, error) {
	branches = slices.DeleteFunc(slices.Clone(branches), func(b branch) bool { return b.value == nil })
	if len(branches) == 0 {
		return nil, nil
	}
	if len(branches) == 1 {
		return branches[0].value, nil
	}
	objects := make([]map[string]any, 0, len(branches))
	for _, b := range branches {
		if object, ok := b.value.(map[string]any); ok {
			objects = append(objects, object)
		}
	}
	switch len(objects) {
	case 0:
		return chooseValue(branches, loose)
	case len(branches):
		return chooseFields(path, branches, objects, loose)
	}
	return nil, fmt.Errorf("%s %w while instances have a former revision; give the new field another name", path, ErrShape)
}

func chooseFields(path string, branches []branch, objects []map[string]any, loose bool) (any, error) {
	out := map[string]any{}
	for _, object := range objects {
		for name := range object {
			if _, done := out[name]; done {
				continue
			}
			fields := make([]branch, len(branches))
			for i := range branches {
				fields[i] = branch{condition: branches[i].condition, value: objects[i][name]}
			}
			chosen, err := choose(path+"."+name, fields, loose)
			if err != nil {
				return nil, err
			}
			out[name] = chosen
		}
	}
	return out, nil
}

// chooseValue makes one expression of the values. The last is taken without its condition: it is the
// one if no other is, or the instance's revision has no such field, and then what the expression
// reads is not there and kro leaves the field out.
func chooseValue(branches []branch, loose bool) (any, error) {
	var out strings.Builder
	for i, b := range branches {
		text, err := expression.Of(b.value)
		if err != nil {
			return nil, err
		}
		if loose {
			text = "dyn(" + text + ")"
		}
		if i < len(branches)-1 {
			text = "(" + b.condition + ") ? (" + text + ") : "
		} else {
			text = "(" + text + ")"
		}
		out.WriteString(text)
	}
	return expression.Wrap(out.String()), nil
}
