// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/sandbar-dev/sandbar/dataplane/preview"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

func TestPreviewKeysAreMadeOnceAndNeverChanged(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	at := client.ObjectKey{Namespace: placement.SystemNamespace, Name: placement.PreviewKeysSecret}
	ensure := func(c client.WithWatch) (Action, map[string][]byte) {
		t.Helper()
		var report Report
		a := &applier{where: "runtime", client: c, report: &report}
		if err := a.ensurePreviewKeys(t.Context()); err != nil {
			t.Fatal(err)
		}
		secret := &corev1.Secret{}
		if err := c.Get(t.Context(), at, secret); err != nil {
			t.Fatal(err)
		}
		if len(report.Entries) != 1 {
			t.Fatalf("reported: %v", report.Entries)
		}
		return report.Entries[0].Action, secret.Data
	}
	t.Run("missing", func(t *testing.T) {
		c := fake.NewClientBuilder().WithScheme(scheme).Build()
		action, made := ensure(c)
		if action != Created || len(made) != 1 {
			t.Fatalf("%s: %d entries", action, len(made))
		}
		if keys, err := preview.NewKeys(made); err != nil || keys.Empty() {
			t.Errorf("the data plane cannot use it: %v", err)
		}
		for _, key := range made {
			if slices.Max(key) == 0 {
				t.Error("the key is all zero")
			}
		}
		action, kept := ensure(c)
		if action != Unchanged || cmp.Diff(made, kept) != "" {
			t.Errorf("the second time: %s", action)
		}
	})
	t.Run("empty", func(t *testing.T) {
		empty := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: at.Namespace, Name: at.Name}}
		action, kept := ensure(fake.NewClientBuilder().WithScheme(scheme).WithObjects(empty).Build())
		if action != Unchanged || len(kept) > 0 {
			t.Errorf("%s: %d entries", action, len(kept))
		}
	})
}
