// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"strings"
	"testing"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

func TestAnImageIsChosenByAFieldWhoseValuesAreTheImages(t *testing.T) {
	for declared, fits := range map[string]bool{
		`string | enum="node,go"`:                             true,
		`string | default="node" enum="node, go" maxLength=9`: true,
		`string | enum="node"`:                                false,
		`string | enum="node,go,evil"`:                        false,
		`string`:                                              false,
		`integer | enum="node,go"`:                            false,
		"":                                                    false,
	} {
		spec := &sandbarv1alpha1.TemplateSpec{ImageChoice: &sandbarv1alpha1.ImageChoice{Field: "toolchain", Images: []string{"node", "go"}}}
		problems := checkImageChoice(spec, &graphSchema{Spec: map[string]any{"toolchain": declared}})
		if fits != (len(problems) == 0) {
			t.Errorf("%q: %v", declared, problems)
		}
		if !fits && !strings.Contains(problems[0].String(), `enum="node,go"`) {
			t.Errorf("%q: the problem does not say what is wanted: %v", declared, problems)
		}
	}
}
