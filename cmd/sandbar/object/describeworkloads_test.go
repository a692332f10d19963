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
		"a workload to which requests are led": {
			`{routingKey: {headerName: x-sandbox-id, value: sbx-abcd1234}, underlyingRefs: {sandboxGroupName: preview, sandboxRouteName: preview}, workloads: [{name: web}],
			endpoints: [{name: web, url: "https://shop.example.com/", hostname: shop.example.com, path: /, interception: web},
				{name: web-2, hostname: "*.example.com", path: "/\u001b[2J", interception: web}, {name: api, url: "https://shop.example.com", hostname: shop.example.com, interception: api}]}`,
			"Sandbox group: preview\nSandbox route: preview\nRouting key: x-sandbox-id: sbx-abcd1234\n", `
Workloads:
  NAME  READY  REPLICAS  IMAGE
  web   false  <none>    <none>

Endpoints, for requests with the routing key:
  NAME   INTERCEPTION  HOSTNAME          PATH              URL
  web    web           shop.example.com  /                 https://shop.example.com/
  web-2  web           *.example.com     /\x1b[2J          <none>
  api    api           shop.example.com  by an expression  https://shop.example.com
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
			describeEndpoints(&out, obj)
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
