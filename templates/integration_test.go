// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package templates

import (
	"encoding/json"
	"os"
	"testing"

	krov1alpha1 "github.com/kubernetes-sigs/kro/api/v1alpha1"
	krograph "github.com/kubernetes-sigs/kro/pkg/graph"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/platform"
)

// TestKroAcceptsTheGraphs runs kro's own checks on the built-in graphs, with the schemas of a
// real API server, and without putting anything on it.
func TestKroAcceptsTheGraphs(t *testing.T) {
	file := os.Getenv("STACK_RUNTIME_KUBECONFIG")
	if file == "" {
		t.Fatal("no stack: STACK_RUNTIME_KUBECONFIG is not set (make test-integration sets it)")
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		t.Fatal(err)
	}
	inspector, err := platform.NewInspector(cfg)
	if err != nil {
		t.Fatal(err)
	}
	gateway, err := inspector.HasGateway()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range Names() {
		tmpl, err := Get(name)
		if err != nil {
			t.Fatal(err)
		}
		bare, dropped, err := WithoutGateway(tmpl)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name+" without the Gateway API", func(t *testing.T) { build(t, cfg, bare) })
		t.Run(name+" whole", func(t *testing.T) {
			if len(dropped) > 0 && !gateway {
				t.Skip("the runtime cluster does not serve the Gateway API")
			}
			build(t, cfg, tmpl)
		})
	}
}

func build(t *testing.T, cfg *rest.Config, tmpl *sandbarv1alpha1.Template) {
	t.Helper()
	rgd := &krov1alpha1.ResourceGraphDefinition{ObjectMeta: metav1.ObjectMeta{Name: tmpl.Name}}
	if err := json.Unmarshal(tmpl.Spec.Graph.Raw, &rgd.Spec); err != nil {
		t.Fatal(err)
	}
	httpClient, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	builder, err := krograph.NewBuilder(cfg, httpClient)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := builder.NewResourceGraphDefinition(rgd, krograph.Config{MaxCollectionSize: 100, MaxCollectionDimensionSize: 5}); err != nil {
		t.Error(err)
	}
}
