// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package clone

import (
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestEachRuleIsAboutAFieldThatThereIs(t *testing.T) {
	types := map[string]reflect.Type{}
	var collect func(reflect.Type)
	collect = func(of reflect.Type) {
		for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
			of = of.Elem()
		}
		if of.Kind() != reflect.Struct || types[of.Name()] != nil {
			return
		}
		types[of.Name()] = of
		for f := range of.Fields() {
			collect(f.Type)
		}
	}
	collect(reflect.TypeFor[corev1.PodSpec]())
	for key, rule := range ruleOf {
		name, field, _ := strings.Cut(key, ".")
		of, ok := types[name]
		if !ok {
			t.Errorf("there is no type %s in a pod", name)
			continue
		}
		found, descends := false, false
		for f := range of.Fields() {
			if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); tag == field {
				kind := f.Type.Kind()
				if kind == reflect.Pointer || kind == reflect.Slice {
					kind = f.Type.Elem().Kind()
				}
				found, descends = true, kind == reflect.Struct
			}
		}
		if !found || rule.allow == nil && !descends {
			t.Errorf("%s is not a field, or has no fields inside", key)
		}
	}
}
