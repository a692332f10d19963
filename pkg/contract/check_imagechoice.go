// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"fmt"
	"slices"
	"strings"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// checkImageChoice checks that tenants have the field by which they choose an image, and that its enum
// is the list of what can be chosen: a value beyond it could never be used, and one that is missing
// could never be chosen.
func checkImageChoice(spec *sandbarv1alpha1.TemplateSpec, schema *graphSchema) []Problem {
	choice := spec.ImageChoice
	if choice == nil {
		return nil
	}
	declared, _ := schema.Spec[choice.Field].(string)
	_, rest, found := strings.Cut(declared, `enum="`)
	values, _, _ := strings.Cut(rest, `"`)
	enum := strings.FieldsFunc(values, func(r rune) bool { return r == ',' || r == ' ' })
	if !strings.HasPrefix(strings.TrimSpace(declared), "string") || !found || !slices.Equal(enum, choice.Images) {
		return []Problem{{"spec.imageChoice", fmt.Sprintf(`the graph's spec must have the field %q, and say of it: string | enum="%s"`,
			choice.Field, strings.Join(choice.Images, ","))}}
	}
	return nil
}
