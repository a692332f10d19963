// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package podtemplate

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

func raw(text string) *runtime.RawExtension { return &runtime.RawExtension{Raw: []byte(text)} }

// What a Template says of nodes, priorities and volumes is handed on by a SandboxTemplate that rests on it,
// and is not its to change, at any step of patches.
func TestASandboxTemplateHandsOnWhatTheOperatorSaysAndNothingOfItsOwnWithIt(t *testing.T) {
	offer := &sandbarv1alpha1.PodTemplateBase{PodTemplate: *raw(`{"metadata":{"labels":{"billing.example.com/pool":"a"}},"spec":{
		"nodeSelector":{"pool":"sandboxes"},"priorityClassName":"low","tolerations":[{"key":"sandboxes","operator":"Exists"}],
		"volumes":[{"name":"cache","hostPath":{"path":"/cache"}}],
		"containers":[{"name":"main","image":"of-the-operator","volumeMounts":[{"name":"cache","mountPath":"/cache"}]}]}}`)}
	for name, test := range map[string]struct{ own, sandbox, refused string }{
		"as it is":                               {},
		"another image":                          {own: `{"spec":{"containers":[{"name":"main","image":"mine"}]}}`},
		"another node, by the template":          {own: `{"spec":{"nodeSelector":{"pool":"system"}}}`, refused: "nodeSelector"},
		"another node, by the Sandbox":           {sandbox: `{"spec":{"nodeSelector":{"pool":"system"}}}`, refused: "nodeSelector"},
		"one more selector":                      {own: `{"spec":{"nodeSelector":{"zone":"b"}}}`, refused: "nodeSelector"},
		"a selector that is replaced":            {own: `{"spec":{"nodeSelector":{"$patch":"replace","pool":"system"}}}`, refused: "nodeSelector"},
		"no selector":                            {own: `{"spec":{"nodeSelector":null}}`, refused: "nodeSelector"},
		"taken away, and given back otherwise":   {own: `{"spec":{"priorityClassName":null}}`, sandbox: `{"spec":{"priorityClassName":"high"}}`, refused: "priorityClassName"},
		"another priority":                       {own: `{"spec":{"priorityClassName":"high"}}`, refused: "priorityClassName"},
		"one more toleration":                    {own: `{"spec":{"tolerations":[{"key":"control-plane","operator":"Exists"}]}}`, refused: "tolerations"},
		"the operator's volume, elsewhere":       {own: `{"spec":{"volumes":[{"name":"cache","hostPath":{"path":"/etc"}}]}}`, refused: "hostPath"},
		"a volume like the operator's":           {own: `{"spec":{"volumes":[{"name":"mine","hostPath":{"path":"/cache"}}]}}`, refused: "hostPath"},
		"the operator's volume, by two patches":  {own: `{"spec":{"volumes":[{"name":"cache","$patch":"delete"}]}}`, sandbox: `{"spec":{"volumes":[{"name":"cache","hostPath":{"path":"/"}}]}}`, refused: "hostPath"},
		"an identity":                            {own: `{"spec":{"serviceAccountName":"admin"}}`, refused: "serviceAccountName"},
		"all replaced by a pod of the tenant's":  {own: `{"spec":{"$patch":"replace","nodeName":"chosen","containers":[{"name":"main","image":"mine"}]}}`, refused: "nodeName"},
		"a label of the operator's, changed":     {own: `{"metadata":{"labels":{"billing.example.com/pool":"b"}}}`, refused: "billing.example.com/pool"},
		"Sandbar's own label":                    {own: `{"metadata":{"labels":{"sandbar.dev/instance-uid":"forged"}}}`, refused: "sandbar.dev/instance-uid"},
		"a container beside, privileged":         {own: `{"spec":{"containers":[{"name":"side","image":"x","securityContext":{"privileged":true}}]}}`, refused: ""},
		"a container beside with the host's dir": {sandbox: `{"spec":{"containers":[{"name":"side","image":"x","volumeMounts":[{"name":"cache","mountPath":"/x"}]}]}}`},
	} {
		t.Run(name, func(t *testing.T) {
			base, err := NewBase(offer)
			if err != nil {
				t.Fatal(err)
			}
			spec := &sandbarv1alpha1.SandboxTemplateSpec{TemplateRef: &sandbarv1alpha1.PodTemplateRef{Name: "offer"}}
			if test.own != "" {
				spec.Patch = raw(test.own)
			}
			own, err := OwnBase(spec, base)
			if err != nil {
				t.Fatal(err)
			}
			source := &sandbarv1alpha1.PodTemplateSource{TemplateRef: &sandbarv1alpha1.PodTemplateRef{Kind: sandbarv1alpha1.RefSandboxTemplate, Name: "own"}}
			if test.sandbox != "" {
				source.Patch = raw(test.sandbox)
			}
			pod, err := Build(source, own, nil, Rules{PodSecurity: "privileged"})
			var refused *RefusedError
			switch {
			case test.refused == "" && err != nil:
				t.Errorf("refused: %v", err)
			case test.refused != "" && (!errors.As(err, &refused) || !strings.Contains(err.Error(), test.refused)):
				t.Errorf("%v, want a refusal of %s (%+v)", err, test.refused, specOf(pod))
			}
		})
	}
}

func specOf(pod *Pod) corev1.PodSpec {
	if pod == nil {
		return corev1.PodSpec{}
	}
	return pod.Template.Spec
}
