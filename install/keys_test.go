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
	"github.com/sandbar-dev/sandbar/providers/infrastructure/control"
)

func TestKeysAreMadeOnceAndNeverChanged(t *testing.T) {
	for name, usable := range map[string]func(map[string][]byte) bool{
		placement.PreviewKeysSecret: func(data map[string][]byte) bool {
			keys, err := preview.NewKeys(data)
			return err == nil && !keys.Empty()
		},
		placement.ControlKeysSecret: func(data map[string][]byte) bool {
			for _, key := range data {
				if len(key) != control.KeyBytes {
					return false
				}
			}
			return true
		},
	} {
		t.Run(name, func(t *testing.T) { keysAreMadeOnce(t, name, usable) })
	}
}

func keysAreMadeOnce(t *testing.T, name string, usable func(map[string][]byte) bool) {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	at := client.ObjectKey{Namespace: placement.SystemNamespace, Name: name}
	ensure := func(c client.WithWatch) (Action, map[string][]byte) {
		t.Helper()
		var report Report
		a := &applier{where: "runtime", system: at.Namespace, client: c, report: &report}
		if err := a.ensureKeys(t.Context()); err != nil {
			t.Fatal(err)
		}
		secret := &corev1.Secret{}
		if err := c.Get(t.Context(), at, secret); err != nil {
			t.Fatal(err)
		}
		for _, entry := range report.Entries {
			if entry.Name == at.Namespace+"/"+name {
				return entry.Action, secret.Data
			}
		}
		t.Fatalf("reported: %v", report.Entries)
		return "", nil
	}
	t.Run("missing", func(t *testing.T) {
		c := fake.NewClientBuilder().WithScheme(scheme).Build()
		action, made := ensure(c)
		if action != Created || len(made) != 1 {
			t.Fatalf("%s: %d entries", action, len(made))
		}
		if !usable(made) {
			t.Error("it cannot be used")
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
