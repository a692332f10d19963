// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func TestDescribeShowsTheWorkloadsOfASandbox(t *testing.T) {
	for name, c := range map[string]struct{ status, fields, want string }{
		"two workloads": {
			`{routingKey: {headerName: baggage, value: sbx-abcd1234}, underlyingRefs: {sandboxGroupName: preview}, workloads: [{name: web, ready: true, replicas: 2, image: "web:2\u001b[2J"}, {name: api}]}`,
			"Sandbox group: preview\nRouting key: baggage: sandbox=sbx-abcd1234\n", `
Workloads:
  NAME  READY  REPLICAS  IMAGE
  web   true   2         web:2\x1b[2J
  api   false  <none>    <none>
`,
		},
		"a Sandbox with a pod":                  {`{phase: Ready}`, "", ""},
		"another kind with a field of the name": {`{workloads: 1}`, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			obj := &unstructured.Unstructured{Object: map[string]any{}}
			if err := yaml.Unmarshal([]byte("{status: "+strings.ReplaceAll(c.status, "\\u001b", "\\e")+"}"), &obj.Object); err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			describeWorkloads(&out, obj)
			if diff := cmp.Diff(c.want, out.String()); diff != "" {
				t.Error(diff)
			}
			var fields strings.Builder
			describeRouting(func(name string, values ...string) { fmt.Fprintf(&fields, "%s: %s\n", name, strings.Join(values, ",")) }, obj)
			if diff := cmp.Diff(c.fields, fields.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}
