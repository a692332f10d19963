// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package place

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/sandbar-dev/sandbar/pkg/clone"
	"github.com/sandbar-dev/sandbar/pkg/contract"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/lifecycle"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
)

// fieldReplicas of a copy is how many pods it has while nothing makes it rest. Its spec has those that it has now.
const fieldReplicas = "replicas"

// CopyBytes is how large a copy is in the kro instance, as JSON.
func CopyBytes(rendered *clone.Rendered) (bytes int, err error) {
	item, err := copyItem(rendered)
	if err != nil {
		return 0, err
	}
	for _, part := range []any{item, rendered.Claims} {
		data, err := json.Marshal(part)
		if err != nil {
			return 0, fmt.Errorf("encoding a copy: %w", err)
		}
		bytes += len(data)
	}
	return bytes, nil
}

// PutCopies puts the copies into the desired kro instance, in the place of the tenant's words. A component that is refused
// leaves the copy that the instance has, and an instance that is refused, or of which no copy could be made, all of them; current is the kro instance that
// there is, or nil. complete is false if there is nothing to compose, and nothing of before to take away.
func PutCopies(s *scope.Scope, current, desired *unstructured.Unstructured, made *outcome.Copies, d lifecycle.Decision) (complete bool, err error) {
	fields, spec := s.Clones().Fields, desired.Object["spec"].(map[string]any)
	delete(spec, fields.From)
	delete(spec, contract.BaselineRefField)
	copies, sessions := ofSessions(itemsOf(current, fields.To))
	claims, workspaces := ofSessions(itemsOf(current, fields.Claims))
	if made.Refused == nil && made.Err == nil {
		if copies, claims, err = madeOf(made, copies, claims); err != nil {
			return false, err
		}
	}
	if made.SessionsKnown {
		if sessions, workspaces, err = sessionsOf(made, sessions, workspaces); err != nil {
			return false, err
		}
		lead(copies, made.Sessions)
	}
	copies, claims = append(copies, sessions...), append(claims, workspaces...)
	for _, item := range copies {
		rest(item.(map[string]any), d)
	}
	spec[fields.To], spec[fields.Claims] = copies, claims
	return len(copies) > 0 || current != nil, nil
}

// itemsOf are those of a list of the kro instance that there is, copied.
func itemsOf(current *unstructured.Unstructured, field string) []any {
	items := []any{}
	if current == nil {
		return items
	}
	list, _, _ := unstructured.NestedSlice(current.Object, "spec", field)
	for _, item := range list {
		if fields, ok := item.(map[string]any); ok {
			items = append(items, fields)
		}
	}
	return items
}

// madeOf are the copies and the claims of all components, in their order.
func madeOf(made *outcome.Copies, formerCopies, formerClaims []any) (copies, claims []any, err error) {
	copies, claims = []any{}, []any{}
	for i := range made.Components {
		one := &made.Components[i]
		if one.Refused != nil {
			copies, claims = append(copies, ofComponent(formerCopies, one.Name)...), append(claims, ofComponent(formerClaims, one.Name)...)
			continue
		}
		item, err := copyItem(one.Rendered)
		if err != nil {
			return nil, nil, fmt.Errorf("component %s: %w", one.Name, err)
		}
		copies = append(copies, item)
		for _, claim := range one.Rendered.Claims {
			item, err := fieldsOf(claim)
			if err != nil {
				return nil, nil, fmt.Errorf("component %s: %w", one.Name, err)
			}
			claims = append(claims, flat(item))
		}
	}
	return copies, claims, nil
}

// ofComponent are the items that are of a component.
func ofComponent(items []any, component string) (of []any) {
	for _, item := range items {
		if label, _, _ := unstructured.NestedString(item.(map[string]any), "labels", placement.LabelComponent); label == component {
			of = append(of, item)
		}
	}
	return of
}

// copyItem is a copy as the graph takes it.
func copyItem(rendered *clone.Rendered) (map[string]any, error) {
	deployment, err := fieldsOf(rendered.Deployment)
	if err != nil {
		return nil, err
	}
	service, err := fieldsOf(rendered.Service)
	if err != nil {
		return nil, err
	}
	item := flat(deployment)
	item[fieldReplicas], _, _ = unstructured.NestedInt64(item, "spec", fieldReplicas)
	item["service"] = flat(service)
	return item, nil
}

func fieldsOf(obj runtime.Object) (map[string]any, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, fmt.Errorf("encoding a copy: %w", err)
	}
	delete(fields, "status")
	unstructured.RemoveNestedField(fields, "spec", "template", "metadata", "creationTimestamp")
	return fields, nil
}

// flat has name, labels, annotations and spec of an object beside each other: a graph writes its metadata field by field.
func flat(obj map[string]any) map[string]any {
	metadata, _ := obj["metadata"].(map[string]any)
	item := map[string]any{"name": metadata["name"], "spec": obj["spec"]}
	for _, name := range []string{"labels", "annotations"} {
		item[name] = map[string]any{}
		if of, ok := metadata[name].(map[string]any); ok {
			item[name] = of
		}
	}
	return item
}

// rest gives a copy as many pods as the lifecycle lets it have.
func rest(item map[string]any, d lifecycle.Decision) {
	wanted, _, _ := unstructured.NestedInt64(item, fieldReplicas)
	switch {
	case d.Suspended != "", item[fieldDeveloped] == true:
		wanted = 0
	case d.Rests:
		wanted = min(wanted, int64(d.MinReplicas))
	}
	if spec, ok := item["spec"].(map[string]any); ok {
		spec[fieldReplicas] = wanted
	}
}
