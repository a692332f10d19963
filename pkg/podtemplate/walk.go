// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package podtemplate

import (
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// walker looks at each field of a pod that is set.
type walker struct {
	pod      *corev1.PodSpec
	rules    Rules
	problems []string
}

// field is one field that a check looks at.
type field struct {
	// path is where it is, for messages.
	path string
	// value is what it holds; pointers are followed. parent is the struct that it is in.
	value, parent any
	// base is what the operator's own template holds there; the zero value if there is none.
	base any
	rule *fieldRule
}

// valueCheck reports the values that are refused.
type valueCheck func(w *walker, f field)

func (w *walker) add(path, format string, args ...any) {
	w.problems = append(w.problems, path+": "+fmt.Sprintf(format, args...))
}

// refuse adds the problem that a field has by its rule.
func (w *walker) refuse(f field) {
	switch {
	case f.rule.verdict == never:
		w.add(f.path, "cannot be set: %s; remove it", f.rule.why)
	case !reflect.ValueOf(f.base).IsZero():
		w.add(f.path, "is the operator's, as the Template offers it: %s; leave it out of the patch", f.rule.why)
	default:
		w.add(f.path, "is not a tenant's to set: %s; remove it", f.rule.why)
	}
}

// fields looks at the fields of a struct, of which base is the operator's own.
func (w *walker) fields(path string, value, base reflect.Value) {
	for i := range value.NumField() {
		of := value.Type().Field(i)
		name, part := jsonName(of), value.Field(i)
		// What the operator's template sets and a patch has removed is looked at as well.
		if part.IsZero() && base.Field(i).IsZero() {
			continue
		}
		if name == "" {
			w.fields(path, part, base.Field(i))
			continue
		}
		at := path + "." + name
		decided := ruleOf[value.Type().Name()+"."+name]
		if decided == nil {
			w.add(at, "is not known to this version of Sandbar; remove it")
			continue
		}
		w.decide(at, decided, part, base.Field(i), value)
	}
}

func (w *walker) decide(at string, decided *fieldRule, part, base, parent reflect.Value) {
	f := field{path: at, value: follow(part).Interface(), base: follow(base).Interface(), parent: parent.Interface(), rule: decided}
	switch decided.verdict {
	case yours, byLevel, fixed:
	case inside:
		w.descend(at, part, base)
	case operators:
		if !equality.Semantic.DeepEqual(f.value, f.base) {
			w.judge(f)
		}
	case bounded, never:
		if !part.IsZero() {
			w.judge(f)
		}
	}
}

func (w *walker) judge(f field) {
	if f.rule.check == nil {
		w.refuse(f)
		return
	}
	f.rule.check(w, f)
}

// descend looks into a struct or into each element of a list. An element that the operator's
// template has just so is the operator's.
func (w *walker) descend(at string, part, base reflect.Value) {
	part, base = follow(part), follow(base)
	if part.Kind() != reflect.Slice {
		w.fields(at, part, base)
		return
	}
	for i := range part.Len() {
		element := part.Index(i)
		theirs, same := counterpart(element, base)
		if !same {
			w.fields(fmt.Sprintf("%s[%d]", at, i), element, theirs)
		}
	}
}

// counterpart finds what the operator's list has for an element: the same, or one of the same
// name, or nothing.
func counterpart(element, base reflect.Value) (theirs reflect.Value, same bool) {
	theirs = reflect.Zero(element.Type())
	for i := range base.Len() {
		candidate := base.Index(i)
		if equality.Semantic.DeepEqual(candidate.Interface(), element.Interface()) {
			return candidate, true
		}
		name := element.FieldByName("Name")
		if name.IsValid() && name.Interface() == candidate.FieldByName("Name").Interface() {
			theirs = candidate
		}
	}
	return theirs, false
}

// follow is what a pointer points to, or the zero value of that if it is nil.
func follow(v reflect.Value) reflect.Value {
	if v.Kind() != reflect.Pointer {
		return v
	}
	if v.IsNil() {
		return reflect.Zero(v.Type().Elem())
	}
	return v.Elem()
}
