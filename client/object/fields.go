// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// UnknownFieldError means that the objects of a kind do not have a field.
type UnknownFieldError struct {
	// Kind is the kind's name, Sandbox for example.
	Kind string
	// Path is the field that does not exist, each name above it first.
	Path []string
	// Fields are the names of the fields beside it, sorted; none if there are none.
	Fields []string
}

// Error implements error.
func (e *UnknownFieldError) Error() string {
	above := e.Kind
	if n := len(e.Path) - 1; n > 0 {
		above = strings.Join(e.Path[:n], ".")
	}
	text := fmt.Sprintf("%s has no field %s", e.Kind, strings.Join(e.Path, "."))
	if len(e.Fields) == 0 {
		return text + "; the schema names no fields of " + above
	}
	return fmt.Sprintf("%s; %s has %s", text, above, strings.Join(e.Fields, ", "))
}

// Document is the OpenAPI v3 document that the schema is of, in JSON.
func (s *Schema) Document() []byte { return s.document }

// Fields returns the names of the fields below a field, sorted; without a path those of the object. Elements of lists and
// values of maps are passed through: containers.image is the image of each container. An error is an
// [UnknownFieldError].
func (s *Schema) Fields(path ...string) ([]string, error) {
	at := s.holder(s.root)
	for i, name := range path {
		below, ok := at.Properties[name]
		if !ok {
			return nil, &UnknownFieldError{Kind: s.kind.Name, Path: path[:i+1], Fields: slices.Sorted(maps.Keys(at.Properties))}
		}
		at = s.holder(below)
	}
	return slices.Sorted(maps.Keys(at.Properties)), nil
}

// holder is the schema that has the fields of a value: that of the elements of a list, or of the values of a map.
func (s *Schema) holder(at *property) *property {
	for range 10 { // no list of lists is as deep, and a reference could lead back to itself
		if at = s.resolve(at); at == nil {
			break
		}
		var values property
		switch {
		case len(at.Properties) > 0:
			return at
		case at.Items != nil:
			at = at.Items
		case len(at.Additional) > 0 && json.Unmarshal(at.Additional, &values) == nil:
			at = &values
		default:
			return at
		}
	}
	return &property{}
}
