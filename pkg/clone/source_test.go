// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package clone

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

var snapshots sync.Map

func read(t testing.TB, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(text, into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

func object(t testing.TB, name string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	read(t, "sources/"+name+".yaml", &u.Object)
	return u
}

// frozen freezes a workload of testdata/sources as a controller does, once: nothing changes a snapshot
// (TestARenderDoesNotChangeItsInput).
func frozen(t testing.TB, name string) *Snapshot {
	t.Helper()
	if kept, ok := snapshots.Load(name); ok {
		return kept.(*Snapshot)
	}
	workload := object(t, name)
	ref, err := WorkloadRef(workload)
	if err != nil {
		t.Fatal(err)
	}
	var referred *unstructured.Unstructured
	if ref != "" {
		referred = object(t, name+"-deployment")
	}
	snapshot, err := Freeze(workload, referred)
	if err != nil {
		t.Fatal(err)
	}
	if len(snapshot.ClaimNames()) > 0 {
		var claims []corev1.PersistentVolumeClaim
		read(t, "sources/"+name+"-claims.yaml", &claims)
		for i := range claims {
			snapshot.AddClaim(&claims[i])
		}
	}
	snapshots.Store(name, snapshot)
	return snapshot
}
