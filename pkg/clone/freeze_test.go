// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package clone

import (
	"bytes"
	"compress/gzip"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/sandbar-dev/sandbar/pkg/golden"
)

// The golden files show what is kept.
func TestWhatIsFrozen(t *testing.T) {
	for _, name := range []string{"storefront", "api", "worker", "plain"} {
		t.Run(name, func(t *testing.T) {
			kept, err := yaml.Marshal(frozen(t, name))
			if err != nil {
				t.Fatal(err)
			}
			golden.Check(t, filepath.Join("testdata", "frozen", name+".golden.yaml"), kept)
		})
	}
}

func TestARestartOfTheWorkloadChangesNoSnapshot(t *testing.T) {
	restarted := object(t, "storefront")
	for path, value := range map[string]string{
		"spec.template.metadata.annotations.kubectl~kubernetes~io/restartedAt": "2026-11-28T00:00:00Z",
		"spec.template.metadata.labels.pod-template-hash":                      "other",
		"metadata.resourceVersion":                                             "7",
	} {
		fields := strings.Split(path, ".")
		fields[len(fields)-1] = strings.ReplaceAll(fields[len(fields)-1], "~", ".")
		if err := unstructured.SetNestedField(restarted.Object, value, fields...); err != nil {
			t.Fatal(err)
		}
	}
	again, err := Freeze(restarted, nil)
	if err != nil {
		t.Fatal(err)
	}
	if digest(t, again) != digest(t, frozen(t, "storefront")) {
		t.Error("the digest has changed")
	}
	again.Template.Spec.Containers[0].Image = "other"
	if digest(t, again) == digest(t, frozen(t, "storefront")) {
		t.Error("the digest has not changed with the image")
	}
}

func digest(t *testing.T, s *Snapshot) string {
	t.Helper()
	d, err := s.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestTheDigestOfASourceIsThatOfItsReference(t *testing.T) {
	seen := map[string]Source{}
	for _, s := range []Source{
		{"apps", "Deployment", "shop", "web"},
		{"apps", "Deployment", "shopw", "eb"},
		{"apps", "StatefulSet", "shop", "web"},
		{"argoproj.io", "Rollout", "shop", "web"},
		{"apps", "Deployment", "shop", "api"},
	} {
		if other, ok := seen[s.Digest()]; ok {
			t.Errorf("%v and %v have one digest", s, other)
		}
		seen[s.Digest()] = s
	}
}

func TestWorkloadsThatCannotBeFrozen(t *testing.T) {
	const template = `template: {spec: {containers: [{name: a, image: b}]}}`
	for name, row := range map[string]struct {
		workload string
		reason   Reason
		says     string
	}{
		"another kind":                     {`{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: a}, spec: {` + template + `}}`, SourceKindUnsupported, "DaemonSet"},
		"a kind of another group":          {`{apiVersion: example.com/v1, kind: Deployment, metadata: {name: a}, spec: {` + template + `}}`, SourceKindUnsupported, "example.com/v1"},
		"an old version":                   {`{apiVersion: apps/v1beta1, kind: Deployment, metadata: {name: a}, spec: {` + template + `}}`, SourceKindUnsupported, "apps/v1beta1"},
		"no spec":                          {`{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}}`, NotCloneable, "no spec"},
		"no containers":                    {`{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {}}`, NotCloneable, "no containers"},
		"a template of another type":       {`{apiVersion: argoproj.io/v1alpha1, kind: Rollout, metadata: {name: a}, spec: {template: {spec: {containers: 3}}}}`, NotCloneable, "cannot be read"},
		"a reference to another kind":      {`{apiVersion: argoproj.io/v1alpha1, kind: Rollout, metadata: {name: a}, spec: {workloadRef: {apiVersion: apps/v1, kind: ReplicaSet, name: b}}}`, NotCloneable, "ReplicaSet"},
		"a reference to another's version": {`{apiVersion: argoproj.io/v1alpha1, kind: Rollout, metadata: {name: a}, spec: {workloadRef: {apiVersion: example.com/v1, kind: Deployment, name: b}}}`, NotCloneable, "example.com/v1"},
	} {
		t.Run(name, func(t *testing.T) {
			u := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(row.workload), &u.Object); err != nil {
				t.Fatal(err)
			}
			_, err := Freeze(u, nil)
			var refused *RefusedError
			if !errors.As(err, &refused) || refused.Reason != row.reason || !strings.Contains(refused.Message, row.says) {
				t.Errorf("err = %#v, want %s with %q", err, row.reason, row.says)
			}
		})
	}
}

func TestARolloutNeedsTheDeploymentThatItNames(t *testing.T) {
	other := object(t, "worker-deployment")
	other.SetName("other")
	elsewhere := object(t, "worker-deployment")
	elsewhere.SetNamespace("other")
	for name, referred := range map[string]*unstructured.Unstructured{
		"none": nil, "one of another name": other, "one of another namespace": elsewhere, "another kind": object(t, "api"),
	} {
		_, err := Freeze(object(t, "worker"), referred)
		var refused *RefusedError
		if err == nil || errors.As(err, &refused) {
			t.Errorf("%s: err = %v, want one that is the caller's mistake", name, err)
		}
	}
}

// A Deployment that has a field workloadRef, of a CRD that was edited for example, has its own template.
func TestOnlyARolloutRefersToAnother(t *testing.T) {
	u := object(t, "storefront")
	if err := unstructured.SetNestedField(u.Object, "b", "spec", "workloadRef", "name"); err != nil {
		t.Fatal(err)
	}
	if ref, err := WorkloadRef(u); ref != "" || err != nil {
		t.Errorf("it refers to %q, %v", ref, err)
	}
}

func TestASnapshotIsReadBack(t *testing.T) {
	for _, name := range []string{"storefront", "api", "worker", "plain"} {
		encoded, err := frozen(t, name).Encode()
		if err != nil {
			t.Fatal(err)
		}
		decoded, err := Decode(encoded)
		if err != nil {
			t.Fatal(err)
		}
		again, err := decoded.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(encoded, again) || digest(t, decoded) != digest(t, frozen(t, name)) {
			t.Errorf("%s: what was read back is another snapshot", name)
		}
	}
}

func TestASnapshotThatIsTooLargeIsRefused(t *testing.T) {
	// Text that does not compress.
	random := make([]byte, 600<<10)
	source := rand.New(rand.NewPCG(1, 2))
	for i := range random {
		random[i] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ+-"[source.IntN(64)]
	}
	for name, row := range map[string]struct{ value, says string }{
		"compressed":   {string(random) + strings.Repeat("x", 1<<20) + string(random[:200<<10]), "the compressed pod template of Deployment storefront"},
		"uncompressed": {strings.Repeat("x", MaxSnapshotBytes), "the pod template of Deployment storefront"},
	} {
		s := *frozen(t, "storefront")
		s.Template = *s.Template.DeepCopy()
		s.Template.Spec.Containers[0].Env = append(s.Template.Spec.Containers[0].Env, corev1.EnvVar{Name: "LARGE", Value: row.value})
		_, err := s.Encode()
		var refused *RefusedError
		if !errors.As(err, &refused) || refused.Reason != NotCloneable || !strings.HasPrefix(refused.Message, row.says) {
			t.Errorf("%s: err = %v", name, err)
		}
	}
}

func pack(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestDataThatAreNotASnapshot(t *testing.T) {
	for name, row := range map[string]struct {
		data []byte
		says string
	}{
		"nothing":                  {nil, "decompressing"},
		"no gzip":                  {[]byte("{}"), "decompressing"},
		"a half":                   {pack(t, "{}")[:12], "decompressing"},
		"no JSON":                  {pack(t, "x"), "reading"},
		"another object":           {pack(t, "{}"), "no source"},
		"more than is kept":        {make([]byte, MaxEncodedBytes+1), "524289 bytes"},
		"several streams in a row": {bytes.Repeat(pack(t, strings.Repeat(" ", MaxSnapshotBytes)), 4), "2097152 bytes"},
	} {
		if _, err := Decode(row.data); err == nil || !strings.Contains(err.Error(), row.says) {
			t.Errorf("%s: err = %v, want one with %q", name, err, row.says)
		}
	}
}

func TestABombIsRefusedBeforeItIsInMemory(t *testing.T) {
	const size = 32 << 20
	bomb := pack(t, `{"source":{"kind":"`+strings.Repeat("x", size)+`"}}`)
	if len(bomb) > MaxEncodedBytes {
		t.Fatalf("the bomb has %d bytes, and is refused for that", len(bomb))
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := Decode(bomb)
	runtime.ReadMemStats(&after)
	if err == nil || !strings.Contains(err.Error(), "2097152 bytes") {
		t.Errorf("err = %v", err)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > size*3/4 {
		t.Errorf("%d bytes were needed to refuse a bomb of %d", used, size)
	}
}
