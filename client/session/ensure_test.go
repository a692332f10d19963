// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"os"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

func TestCreateTakesAToolchain(t *testing.T) {
	obj, err := newRunner("web", EnsureOptions{Dir: t.TempDir(), Toolchain: "go"})
	if err != nil {
		t.Fatal(err)
	}
	if got, _, _ := unstructured.NestedString(obj.Object, "spec", "toolchain"); got != "go" {
		t.Errorf("the SandboxRunner has the toolchain %q", got)
	}
	if obj, err = newRunner("web", EnsureOptions{Dir: t.TempDir()}); err != nil {
		t.Fatal(err)
	}
	if _, there, _ := unstructured.NestedString(obj.Object, "spec", "toolchain"); there {
		t.Error("a toolchain is set that nobody named: the provider's default would not hold")
	}
}

// dev waited five minutes for what nobody was going to change.
func TestCreateDoesNotWaitForAToolchainThatThereIsNot(t *testing.T) {
	status := &sandbarv1alpha1.InstanceStatus{ObservedGeneration: 2, Conditions: []metav1.Condition{
		{Type: sandbarv1alpha1.InstanceComposed, Status: metav1.ConditionFalse, Reason: "ImageMissing", Message: "it has node"},
	}}
	if got := missingImage(status, 2); got != "it has node" {
		t.Errorf("it says %q", got)
	}
	if got := missingImage(status, 3); got != "" {
		t.Errorf("what was said of the spec before counts: %q", got)
	}
	status.Conditions[0].Reason = "Composing"
	if got := missingImage(status, 2); got != "" {
		t.Errorf("what is being made is refused: %q", got)
	}
}

func TestTheToolchainsAreThoseOfTheTemplate(t *testing.T) {
	text, err := os.ReadFile("../../templates/sandbox-runner/template.yaml")
	if want := `enum="` + strings.Join(Toolchains, ",") + `"`; err != nil || !strings.Contains(string(text), want) {
		t.Errorf("the Template has not %s (%v)", want, err)
	}
}
