// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func TestDescribeShowsWhatIsWrongWithEachCopy(t *testing.T) {
	for name, c := range map[string]struct{ status, want string }{
		"copies": {`{sandboxID: sbx-abcd1234, components: [
			{name: web, ready: true, serviceName: checkout-web-svc, servicePorts: [80, 8080], conditions: [{type: SourceResolved, status: "True", reason: Snapshot}, {type: Ready, status: "True", reason: Ready, message: 1 of 1 pods are ready}]},
			{name: api, conditions: [{type: SourceResolved, status: "False", reason: SourceNotFound, message: "sourceRef: Baseline shop has no Deployment api"}, {type: Rendered, status: "False", reason: SourceNotResolved}]}]}`, `
Components:
  NAME  READY  SERVICE                   REASON          MESSAGE
  web   true   checkout-web-svc:80,8080  Ready           1 of 1 pods are ready
  api   false  <none>                    SourceNotFound  sourceRef: Baseline shop has no Deployment api
`},
		"a kind without":                        {`{phase: Ready}`, ""},
		"another kind with a field of the name": {`{components: {web: 1}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			obj := &unstructured.Unstructured{Object: map[string]any{}}
			if err := yaml.Unmarshal([]byte("{status: "+c.status+"}"), &obj.Object); err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			describeComponents(&out, obj)
			if diff := cmp.Diff(c.want, out.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}
