// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// An API server of a Kubernetes before 1.36 does not serve mutating policies, and all else must be applied.
func TestWithoutMutatingPoliciesTheRestIsApplied(t *testing.T) {
	var asked, said []string
	unserved := "MutatingAdmissionPolicy"
	c := fake.NewClientBuilder().WithScheme(runtime.NewScheme()).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, _ client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
			gvk := obj.GetObjectKind().GroupVersionKind()
			if asked = append(asked, gvk.Kind); strings.HasPrefix(gvk.Kind, unserved) {
				return &meta.NoKindMatchError{GroupKind: gvk.GroupKind(), SearchedVersions: []string{"v1"}}
			}
			return nil
		},
		Apply: func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
			if kind := asked[len(asked)-1]; strings.HasPrefix(kind, unserved) {
				return &meta.NoKindMatchError{GroupKind: schema.GroupKind{Kind: kind}, SearchedVersions: []string{"v1"}}
			}
			return nil
		},
	}).Build()
	a := &applier{where: "kcp", client: c, report: &Report{}, opts: Options{Progress: func(line string) { said = append(said, line) }}}
	object := func(kind string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(schema.GroupVersionKind{Group: "admissionregistration.k8s.io", Version: "v1", Kind: kind})
		o.SetName("it")
		return o
	}
	objects := []*unstructured.Unstructured{object(unserved), object(unserved + "Binding"), object("ValidatingAdmissionPolicy")}
	if err := a.applyAll(t.Context(), objects); err != nil {
		t.Fatal(err)
	}
	if len(a.report.Entries) != 1 || len(said) != 2 || !strings.Contains(said[0], "does not serve "+unserved) {
		t.Errorf("reported %v, said %q", a.report, said)
	}
	t.Run("but for no other kind", func(t *testing.T) {
		unserved = "ValidatingAdmissionPolicy"
		if err := a.applyAll(t.Context(), objects[2:]); !meta.IsNoMatchError(err) {
			t.Errorf("error %v", err)
		}
	})
}
