// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package clone

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// maxProblems is how many fields one message names.
const maxProblems = 8

// walker compares a pod with the workload's, field by field.
type walker struct {
	pod      *corev1.PodSpec
	problems []string
}

// checkFields refuses changes of the pod that are not a tenant's to make.
func (r *rendering) checkFields(source *corev1.PodTemplateSpec) error {
	if err := r.checkNumbers(source); err != nil {
		return err
	}
	w := &walker{pod: &source.Spec}
	w.fields("spec", reflect.ValueOf(r.template.Spec), reflect.ValueOf(source.Spec))
	if len(w.problems) > 0 {
		more := ""
		if n := len(w.problems) - maxProblems; n > 0 {
			w.problems, more = w.problems[:maxProblems], fmt.Sprintf("; and %d more", n)
		}
		return refuse(NotAllowed, "%s%s", strings.Join(w.problems, "; "), more)
	}
	r.dropTokens()
	return nil
}

// fields compares two structs of one type.
func (w *walker) fields(path string, value, source reflect.Value) {
	for i := range value.NumField() {
		of, part, theirs := value.Type().Field(i), value.Field(i), source.Field(i)
		if equality.Semantic.DeepEqual(part.Interface(), theirs.Interface()) {
			continue
		}
		name, _, _ := strings.Cut(of.Tag.Get("json"), ",")
		if name == "" { // inlined
			w.fields(path, part, theirs)
			continue
		}
		w.field(path+"."+name, ruleOf[value.Type().Name()+"."+name], part, theirs)
	}
}

// field decides about a field that differs.
func (w *walker) field(path string, rule *fieldRule, part, theirs reflect.Value) {
	if rule == nil {
		rule = &fieldRule{allow: never}
	}
	if rule.allow == nil {
		w.descend(path, follow(part), follow(theirs))
		return
	}
	c := change{value: follow(part).Interface(), source: follow(theirs).Interface(), set: !part.IsZero(), pod: w.pod}
	if !rule.allow(c) {
		w.problems = append(w.problems, path+": "+refusal(theirs.IsZero(), rule.hint))
	}
}

// refusal says that a field is not a tenant's. missing: the workload has none.
func refusal(missing bool, hint string) string {
	switch {
	case missing && hint == "":
		return "cannot be set by a tenant: a copy has what its workload has; remove it"
	case missing:
		return "cannot be set so by a tenant; " + hint
	case hint == "":
		return "cannot be changed by a tenant: a copy has what its workload has; leave it as it is"
	}
	return "cannot be changed so by a tenant; " + hint + ", or leave it as it is"
}

// descend looks into a struct, or into each element of a list that the workload has not got just so.
func (w *walker) descend(path string, part, theirs reflect.Value) {
	if part.Kind() != reflect.Slice {
		w.fields(path, part, theirs)
		return
	}
	if _, ok := part.Interface().([]corev1.Container); ok {
		// The attack: a container that a patch moves among the init containers would have no counterpart there, and none of
		// its workload's restrictions.
		theirs = reflect.ValueOf(slices.Concat(w.pod.Containers, w.pod.InitContainers))
	}
	for i := range part.Len() {
		element := part.Index(i)
		source, same := counterpart(element, theirs)
		if !same {
			w.fields(fmt.Sprintf("%s[%d]", path, i), element, source)
		}
	}
}

// keys are the fields by which elements of lists are told apart, as Kubernetes merges them.
var keys = []string{"MountPath", "ContainerPort", "Path", "Name"}

// counterpart finds what the workload's list has for an element: the same, or the first one of the same key, or nothing.
func counterpart(element, list reflect.Value) (source reflect.Value, same bool) {
	source = reflect.Zero(element.Type())
	at := slices.IndexFunc(keys, func(key string) bool { return element.FieldByName(key).IsValid() })
	found := false
	for i := range list.Len() {
		candidate := list.Index(i)
		if equality.Semantic.DeepEqual(candidate.Interface(), element.Interface()) {
			return candidate, true
		}
		if !found && at >= 0 && element.FieldByName(keys[at]).Interface() == candidate.FieldByName(keys[at]).Interface() {
			source, found = candidate, true
		}
	}
	return source, false
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
