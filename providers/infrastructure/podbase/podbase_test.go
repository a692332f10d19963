// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package podbase

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

const operators = `{"spec":{"nodeSelector":{"pool":"sandboxes"},"containers":[{"name":"main","image":"of-the-operator"}]}}`

func ref(kind, name string) *sandbarv1alpha1.PodTemplateRef {
	return &sandbarv1alpha1.PodTemplateRef{Kind: kind, Name: name}
}

// templates are a chain: patched refers to own, deeper to patched, and base to a Template.
func templates() map[string]*sandbarv1alpha1.SandboxTemplate {
	all := map[string]*sandbarv1alpha1.SandboxTemplate{}
	add := func(name string, spec sandbarv1alpha1.SandboxTemplateSpec) {
		t := &sandbarv1alpha1.SandboxTemplate{Spec: spec}
		t.Name, t.UID = name, types.UID("uid-"+name)
		all[name] = t
	}
	patch := &runtime.RawExtension{Raw: []byte(`{"spec":{"containers":[{"name":"main","image":"patched"}]}}`)}
	add("own", sandbarv1alpha1.SandboxTemplateSpec{Template: &sandbarv1alpha1.PodTemplate{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "own"}}}}})
	add("patched", sandbarv1alpha1.SandboxTemplateSpec{TemplateRef: ref(sandbarv1alpha1.RefSandboxTemplate, "own"), Patch: patch})
	add("deeper", sandbarv1alpha1.SandboxTemplateSpec{TemplateRef: ref(sandbarv1alpha1.RefSandboxTemplate, "patched")})
	add("base", sandbarv1alpha1.SandboxTemplateSpec{TemplateRef: ref(sandbarv1alpha1.RefTemplate, "offer"), Patch: patch})
	add("on-base", sandbarv1alpha1.SandboxTemplateSpec{TemplateRef: ref(sandbarv1alpha1.RefSandboxTemplate, "base")})
	add("itself", sandbarv1alpha1.SandboxTemplateSpec{TemplateRef: ref(sandbarv1alpha1.RefSandboxTemplate, "itself")})
	add("on-unready", sandbarv1alpha1.SandboxTemplateSpec{TemplateRef: ref("", "unready")})
	add("on-missing", sandbarv1alpha1.SandboxTemplateSpec{TemplateRef: ref(sandbarv1alpha1.RefSandboxTemplate, "nosuch")})
	add("misspelt", sandbarv1alpha1.SandboxTemplateSpec{
		TemplateRef: ref(sandbarv1alpha1.RefSandboxTemplate, "own"), Patch: &runtime.RawExtension{Raw: []byte(`{"spec":{"continers":[]}}`)},
	})
	return all
}

func TestAReferenceLeadsToAPodOrSaysWhyNot(t *testing.T) {
	all := templates()
	named := func(_ context.Context, name string) (*sandbarv1alpha1.SandboxTemplate, error) { return all[name], nil }
	offers := Offers{
		"offer":   {Base: sandbarv1alpha1.PodTemplateBase{PodTemplate: runtime.RawExtension{Raw: []byte(operators)}}, Usable: true},
		"unready": {Base: sandbarv1alpha1.PodTemplateBase{PodTemplate: runtime.RawExtension{Raw: []byte(operators)}}},
		"broken":  {Base: sandbarv1alpha1.PodTemplateBase{PodTemplate: runtime.RawExtension{Raw: []byte(`{"spec":{}}`)}}, Usable: true},
	}
	for name, test := range map[string]struct {
		ref         *sandbarv1alpha1.PodTemplateRef
		image, uids string
		operators   bool
		refused     string
	}{
		"a Template":                           {ref: ref(sandbarv1alpha1.RefTemplate, "offer"), image: "of-the-operator", operators: true},
		"a Template, by default":               {ref: ref("", "offer"), image: "of-the-operator", operators: true},
		"a SandboxTemplate":                    {ref: ref(sandbarv1alpha1.RefSandboxTemplate, "own"), image: "own", uids: "uid-own"},
		"one that patches another":             {ref: ref(sandbarv1alpha1.RefSandboxTemplate, "patched"), image: "patched", uids: "uid-patched,uid-own"},
		"one that patches a Template":          {ref: ref(sandbarv1alpha1.RefSandboxTemplate, "base"), image: "patched", uids: "uid-base", operators: true},
		"one on one that patches a Template":   {ref: ref(sandbarv1alpha1.RefSandboxTemplate, "on-base"), image: "patched", uids: "uid-on-base,uid-base", operators: true},
		"one that is not there":                {ref: ref(sandbarv1alpha1.RefSandboxTemplate, "nosuch"), refused: `no SandboxTemplate "nosuch"`},
		"one on one that is not there":         {ref: ref(sandbarv1alpha1.RefSandboxTemplate, "on-missing"), refused: `no SandboxTemplate "nosuch"`},
		"one that refers too far":              {ref: ref(sandbarv1alpha1.RefSandboxTemplate, "deeper"), refused: "which refers to another one"},
		"one that refers to itself":            {ref: ref(sandbarv1alpha1.RefSandboxTemplate, "itself"), refused: "which refers to another one"},
		"one with a field that there is not":   {ref: ref(sandbarv1alpha1.RefSandboxTemplate, "misspelt"), refused: "continers"},
		"a Template that is not there":         {ref: ref("", "nosuch"), refused: `no Template "nosuch"`},
		"a Template that is not Ready":         {ref: ref("", "unready"), refused: "not Ready"},
		"one on a Template that is not Ready":  {ref: ref(sandbarv1alpha1.RefSandboxTemplate, "on-unready"), refused: "not Ready"},
		"a Template that the operator mistook": {ref: ref("", "broken"), refused: "the operator has to correct"},
	} {
		t.Run(name, func(t *testing.T) {
			base, uids, err := offers.Find(t.Context(), test.ref, named)
			var unusable *UnusableError
			if test.refused != "" {
				if !errors.As(err, &unusable) || !strings.Contains(err.Error(), test.refused) {
					t.Errorf("error %v, want a word of %q", err, test.refused)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if image := base.Template.Spec.Containers[0].Image; image != test.image || uids != test.uids {
				t.Errorf("image %q of %q, want %q of %q", image, uids, test.image, test.uids)
			}
			if got := base.Operators.Spec.NodeSelector["pool"] == "sandboxes"; got != test.operators {
				t.Errorf("it knows what the operator said: %v, want %v", got, test.operators)
			}
		})
	}
	t.Run("what cannot be read is not missing", func(t *testing.T) {
		broken := errors.New("kcp is away")
		_, _, err := offers.Find(t.Context(), ref(sandbarv1alpha1.RefSandboxTemplate, "own"), func(context.Context, string) (*sandbarv1alpha1.SandboxTemplate, error) { return nil, broken })
		if !errors.Is(err, broken) {
			t.Errorf("error %v", err)
		}
	})
}
