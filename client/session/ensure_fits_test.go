// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestASandboxRunnerThatExistsIsNotTakenForAnother(t *testing.T) {
	for name, c := range map[string]struct {
		spec    map[string]any
		options EnsureOptions
		want    string // of the error; empty for none
	}{
		"nothing is asked for":     {map[string]any{"toolchain": "python", "startCommand": "exec x"}, EnsureOptions{}, ""},
		"what it has":              {map[string]any{"toolchain": "python", "startCommand": "exec x"}, EnsureOptions{Toolchain: "python", StartCommand: "exec x"}, ""},
		"another language":         {map[string]any{"toolchain": "python"}, EnsureOptions{Toolchain: "node"}, `SandboxRunner web exists and its spec.toolchain is "python": change it there to "node", or use another name`},
		"another command":          {map[string]any{"startCommand": "exec x"}, EnsureOptions{StartCommand: "exec y"}, `its spec.startCommand is "exec x"`},
		"a command, and it has no": {map[string]any{}, EnsureOptions{StartCommand: "exec y"}, `SandboxRunner web exists and has no spec.startCommand: set it there to "exec y"`},
	} {
		obj := &unstructured.Unstructured{Object: map[string]any{"spec": c.spec}}
		obj.SetName("web")
		err := c.options.fits(obj)
		var mistake *UsageError
		if c.want == "" && err != nil || c.want != "" && (!errors.As(err, &mistake) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}
