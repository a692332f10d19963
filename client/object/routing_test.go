// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func routedObject(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{Object: map[string]any{}}
	if err := yaml.Unmarshal([]byte(text), &obj.Object); err != nil {
		t.Fatal(err)
	}
	return obj
}

func TestTheRoutingOfASandbox(t *testing.T) {
	for name, c := range map[string]struct {
		object string
		want   *Routing
		says   string
	}{
		"a Sandbox": {
			`{kind: Sandbox, metadata: {name: web}, status: {routingKey: {headerName: baggage, value: sbx-abcd1234}, endpoints: [{url: ""}, {url: "https://a.example.com/"}], conditions: [{type: Attached, status: "True"}]}}`,
			&Routing{Header: "baggage", Value: "sandbox=sbx-abcd1234", URLs: []string{"https://a.example.com/"}, Attached: &metav1.Condition{Type: "Attached", Status: "True"}}, "",
		},
		"a header of the tenant's": {
			`{kind: Sandbox, metadata: {name: web}, status: {routingKey: {headerName: X-Sandbox, value: sbx-abcd1234}}}`,
			&Routing{Header: "x-sandbox", Value: "sbx-abcd1234"}, "",
		},
		"a SandboxRoute": {
			`{kind: SandboxRoute, metadata: {name: web}, spec: {selectorHeaderName: x-id}, status: {sandboxID: sbx-abcd1234, endpoints: [{url: "http://a.example.com/b"}]}}`,
			&Routing{Header: "x-id", Value: "sbx-abcd1234", URLs: []string{"http://a.example.com/b"}}, "",
		},
		"a SandboxGroup": {`{kind: SandboxGroup, metadata: {name: web}, status: {sandboxID: sbx-abcd1234}}`, &Routing{Header: "baggage", Value: "sandbox=sbx-abcd1234"}, ""},
		"no workloads":   {`{kind: Sandbox, metadata: {name: web}, status: {phase: Ready}}`, nil, "Sandbox web: it has no ID"},
		"another status": {`{kind: Redis, metadata: {name: web}, status: {endpoints: yes}}`, nil, "Redis web: its kind has no status of that form"},
		"a line break":   {`{kind: Sandbox, metadata: {name: web}, status: {routingKey: {headerName: x, value: "a\nb"}}}`, nil, "cannot be one of a request"},
		"a file's name":  {`{kind: Sandbox, metadata: {name: web}, status: {routingKey: {headerName: "@/etc/passwd", value: a}}}`, nil, "cannot be one of a request"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := RoutingOf(routedObject(t, c.object))
			if diff := cmp.Diff(c.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
			var refused *NotRoutedError
			if (err != nil) != (c.says != "") || err != nil && (!errors.As(err, &refused) || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("%v, want %q", err, c.says)
			}
		})
	}
}

func TestTheURLThatATextMeans(t *testing.T) {
	some := &Routing{URLs: []string{"https://shop.example.com/api", "https://other.example.com/"}}
	for _, c := range []struct {
		of               *Routing
		text, want, says string
	}{
		{some, "", "https://shop.example.com/api", ""},
		{some, "/cart?id=1#x", "https://shop.example.com/cart?id=1#x", ""},
		{some, "http://10.0.0.1:8080/x", "http://10.0.0.1:8080/x", ""},
		{some, "cart", "", "neither a URL"},
		{some, "-o/etc/passwd", "", "neither a URL"},
		{some, "file:///etc/passwd", "", "neither a URL"},
		{some, "https:", "", "neither a URL"},
		{&Routing{}, "/cart", "", "write the URL, such as https://shop.example.com/cart"},
		{&Routing{URLs: []string{"--config=x"}}, "", "", "cannot be opened"},
	} {
		got, err := c.of.At(c.text)
		if got != c.want || (err != nil) != (c.says != "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q: %q, %v", c.text, got, err)
		}
	}
}
