// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package templates

import (
	"encoding/json"
	"testing"

	krov1alpha1 "github.com/kubernetes-sigs/kro/api/v1alpha1"
	krograph "github.com/kubernetes-sigs/kro/pkg/graph"
	"k8s.io/apiextensions-apiserver/pkg/generated/openapi"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kube-openapi/pkg/validation/spec"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// buildGraph runs kro's own checks on a Template's graph, with the schemas of the Kubernetes
// libraries in place of a cluster's.
func buildGraph(t *testing.T, tmpl *sandbarv1alpha1.Template) (*krograph.Graph, error) {
	t.Helper()
	rgd := &krov1alpha1.ResourceGraphDefinition{ObjectMeta: metav1.ObjectMeta{Name: tmpl.Name}}
	if err := json.Unmarshal(tmpl.Spec.Graph.Raw, &rgd.Spec); err != nil {
		t.Fatalf("parsing the graph: %v", err)
	}
	builder, err := krograph.NewBuilder(nil, nil,
		krograph.WithSchemaResolver(schemas{resolver.NewDefinitionsSchemaResolver(openapi.GetOpenAPIDefinitions, clientgoscheme.Scheme)}),
		krograph.WithRESTMapper(mapper()))
	if err != nil {
		t.Fatalf("making kro's builder: %v", err)
	}
	return builder.NewResourceGraphDefinition(rgd, krograph.Config{MaxCollectionSize: 100, MaxCollectionDimensionSize: 5})
}

// schemas knows the kinds of Kubernetes, and takes anything in those of the Gateway API: a real
// cluster checks them (see the integration tests).
type schemas struct{ core resolver.SchemaResolver }

func (s schemas) ResolveSchema(gvk schema.GroupVersionKind) (*spec.Schema, error) {
	if gvk.Group != gatewayGroup {
		return s.core.ResolveSchema(gvk)
	}
	open := spec.Schema{SchemaProps: spec.SchemaProps{Type: spec.StringOrArray{"object"}}}
	open.AddExtension("x-kubernetes-preserve-unknown-fields", true)
	str := spec.StringProperty()
	return &spec.Schema{SchemaProps: spec.SchemaProps{
		Type: spec.StringOrArray{"object"},
		Properties: map[string]spec.Schema{
			"apiVersion": *str, "kind": *str, "metadata": open, "spec": open, "status": open,
		},
	}}, nil
}

func mapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	for _, gvk := range []schema.GroupVersionKind{
		{Version: "v1", Kind: "ConfigMap"},
		{Version: "v1", Kind: "PersistentVolumeClaim"},
		{Version: "v1", Kind: "Service"},
		{Group: "apps", Version: "v1", Kind: "Deployment"},
		{Group: "apps", Version: "v1", Kind: "StatefulSet"},
		{Group: gatewayGroup, Version: "v1", Kind: "HTTPRoute"},
		{Group: gatewayGroup, Version: "v1beta1", Kind: "ReferenceGrant"},
	} {
		m.Add(gvk, meta.RESTScopeNamespace)
	}
	return m
}

func TestKroAcceptsTheGraphs(t *testing.T) {
	for _, name := range Names() {
		tmpl, err := Get(name)
		if err != nil {
			t.Fatal(err)
		}
		bare, _, err := WithoutGateway(tmpl)
		if err != nil {
			t.Fatal(err)
		}
		for variant, tmpl := range map[string]*sandbarv1alpha1.Template{"whole": tmpl, "without gateway": bare} {
			t.Run(name+" "+variant, func(t *testing.T) {
				if _, err := buildGraph(t, tmpl); err != nil {
					t.Fatal(err)
				}
			})
		}
	}
}
