// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// without changes the images so that one goes.
func without(key string) func(*sandbarv1alpha1.InfrastructureProviderSpec) {
	return func(s *sandbarv1alpha1.InfrastructureProviderSpec) { delete(s.Images, key) }
}

func TestAnImageThatAnInstanceHasChosenCannotGo(t *testing.T) {
	box := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"toolchain": "go"}}}
	box.SetAPIVersion("sandbar.dev/v1alpha1")
	box.SetKind("SandboxRunner")
	box.SetNamespace("sb-1")
	box.SetName("web")
	box.SetLabels(map[string]string{placement.LabelInstanceUID: "u"})
	o := newOperator(t, sandbarv1alpha1.InfrastructureProviderSpec{
		DataPlane: sandbarv1alpha1.DataPlaneAddress{URL: "https://dp"},
		Images:    map[string]string{"node": "n:1", "python": "p:1", "go": "g:1"},
	}, box)
	runners := &sandbarv1alpha1.Template{
		ObjectMeta: metav1.ObjectMeta{Name: "sandbox-runner"},
		Spec:       sandbarv1alpha1.TemplateSpec{ImageChoice: &sandbarv1alpha1.ImageChoice{Field: "toolchain", Images: []string{"node", "python", "go"}}},
		Status:     sandbarv1alpha1.TemplateStatus{Group: "sandbar.dev", Version: "v1alpha1", Kind: "SandboxRunner"},
	}
	if err := o.kcp.Create(t.Context(), runners); err != nil {
		t.Fatal(err)
	}
	if c := o.change(without("go")); c.Reason != reasonImageMissing || !strings.Contains(c.Message, `1 instances of Template sandbox-runner have spec.toolchain "go"`) {
		t.Errorf("an image that is used: %s: %s", c.Reason, c.Message)
	}
	if values, _ := o.published(); values["goImage"] != "g:1" {
		t.Errorf("the platform has the image %q", values["goImage"])
	}
	if c := o.change(func(s *sandbarv1alpha1.InfrastructureProviderSpec) {
		s.Images["go"] = "g:2"
		delete(s.Images, "python")
	}); c.Status != metav1.ConditionTrue {
		t.Errorf("an image that nobody uses: %s: %s", c.Reason, c.Message)
	}
}
