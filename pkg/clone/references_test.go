// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package clone

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

const everywhere = `
spec:
  imagePullSecrets: [{name: pull}]
  containers:
  - name: a
    envFrom: [{configMapRef: {name: c-from}}, {secretRef: {name: s-from, optional: true}}, {prefix: P_, configMapRef: {name: c-from}}]
    env:
    - {name: A, value: b}
    - {name: B, valueFrom: {configMapKeyRef: {name: c-env, key: k, optional: true}}}
    - {name: C, valueFrom: {secretKeyRef: {name: s-env, key: k}}}
    - {name: D, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
  initContainers: [{name: i, env: [{name: A, valueFrom: {secretKeyRef: {name: s-init, key: k}}}]}]
  ephemeralContainers: [{name: e, envFrom: [{secretRef: {name: s-debug}}]}]
  volumes:
  - {name: a, configMap: {name: c-volume}}
  - {name: b, secret: {secretName: s-volume, optional: true}}
  - {name: c, projected: {sources: [{configMap: {name: c-projected}}, {downwardAPI: {}}, {secret: {name: s-projected, optional: true}}]}}
  - {name: d, emptyDir: {}}
`

func everyReference(t *testing.T) *corev1.PodTemplateSpec {
	t.Helper()
	template := &corev1.PodTemplateSpec{}
	if err := yaml.UnmarshalStrict([]byte(everywhere), template); err != nil {
		t.Fatal(err)
	}
	return template
}

func TestReferencesAreFoundWhereverAPodHasThem(t *testing.T) {
	template := everyReference(t)
	want := []Reference{
		{KindConfigMap, "c-from", false, "spec.containers[0].envFrom[0].configMapRef"},
		{KindSecret, "s-from", true, "spec.containers[0].envFrom[1].secretRef"},
		{KindConfigMap, "c-from", false, "spec.containers[0].envFrom[2].configMapRef"},
		{KindConfigMap, "c-env", true, "spec.containers[0].env[1].valueFrom.configMapKeyRef"},
		{KindSecret, "s-env", false, "spec.containers[0].env[2].valueFrom.secretKeyRef"},
		{KindSecret, "s-init", false, "spec.initContainers[0].env[0].valueFrom.secretKeyRef"},
		{KindSecret, "s-debug", false, "spec.ephemeralContainers[0].envFrom[0].secretRef"},
		{KindConfigMap, "c-volume", false, "spec.volumes[0].configMap"},
		{KindSecret, "s-volume", true, "spec.volumes[1].secret"},
		{KindConfigMap, "c-projected", false, "spec.volumes[2].projected.sources[0].configMap"},
		{KindSecret, "s-projected", true, "spec.volumes[2].projected.sources[2].secret"},
		{KindSecret, "pull", false, "spec.imagePullSecrets[0]"},
	}
	if diff := cmp.Diff(want, References(template)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(everyReference(t), template); diff != "" {
		t.Errorf("the template has changed:\n%s", diff)
	}
}

func TestReferencesThatAreDroppedAreGone(t *testing.T) {
	template := everyReference(t)
	visitReferences(&template.Spec, func(Reference) bool { return false })
	if left := References(template); len(left) > 0 {
		t.Errorf("the pod still refers to %v", left)
	}
	var names []string
	for _, e := range template.Spec.Containers[0].Env {
		names = append(names, e.Name)
	}
	if diff := cmp.Diff([]string{"A", "D"}, names); diff != "" {
		t.Errorf("the variables that refer to nothing: %s", diff)
	}
	if v := template.Spec.Volumes; len(v) != 4 || v[0].EmptyDir == nil || v[1].EmptyDir == nil || len(v[2].Projected.Sources) != 1 {
		t.Errorf("the volumes are %+v", v)
	}
}

func TestWhatThePodNeedsOnceItIsNotOptional(t *testing.T) {
	for name, row := range map[string]struct {
		optional []bool
		want     bool
	}{
		"all are optional":        {[]bool{true, true}, true},
		"the first is not":        {[]bool{false, true}, false},
		"the last is not":         {[]bool{true, false}, false},
		"one that is optional":    {[]bool{true}, true},
		"one that is not at all":  {[]bool{false}, false},
		"one in the midst is not": {[]bool{true, false, true}, false},
	} {
		r := &rendering{Input: Input{Snapshot: &Snapshot{}}}
		for _, optional := range row.optional {
			r.Snapshot.Template.Spec.Volumes = append(r.Snapshot.Template.Spec.Volumes, corev1.Volume{VolumeSource: corev1.VolumeSource{
				ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "a"}, Optional: &optional},
			}})
		}
		r.template = *r.Snapshot.Template.DeepCopy()
		got, err := r.settleReferences()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]Needed{{Name: "a", Optional: row.want}}, got.configMaps); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
