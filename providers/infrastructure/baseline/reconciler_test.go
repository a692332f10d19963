// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package baseline

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// Each write of a status is seen by all replicas of the data plane and, on a provider with a hundred Baselines, would be a
// load on kcp that nobody asked for.
func TestABaselineAtRestIsNotWritten(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := sandbarv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	b := baselineOf("storefront")
	writes := 0
	kcp := fake.NewClientBuilder().WithScheme(scheme).WithObjects(b).WithStatusSubresource(b).WithInterceptorFuncs(interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			writes++
			return c.SubResource(sub).Patch(ctx, obj, patch, opts...)
		},
	}).Build()
	c := newCluster(t, namespaceObject, frontend)
	told := 0
	r := &reconciler{kcp: kcp, sources: c.sources, specs: newSpecs(func() { told++ })}
	request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(b)}
	reconcile := func() *sandbarv1alpha1.Baseline {
		t.Helper()
		if result, err := r.Reconcile(t.Context(), request); err != nil || !result.IsZero() {
			t.Fatalf("%v, %v", result, err)
		}
		found := &sandbarv1alpha1.Baseline{}
		if err := kcp.Get(t.Context(), request.NamespacedName, found); err != nil {
			t.Fatal(err)
		}
		return found
	}
	reconcile()
	becomes(t, "the namespace is read", func() bool { return c.view().state == read })
	if found := reconcile(); !meta.IsStatusConditionTrue(found.Status.Conditions, sandbarv1alpha1.BaselineReady) || found.Status.WorkloadsFound != 1 {
		t.Errorf("%+v", found.Status)
	}
	before := writes
	for range 5 {
		reconcile()
	}
	if writes != before || writes == 0 {
		t.Errorf("%d writes, and %d more at rest", before, writes-before)
	}
	if told != 1 {
		t.Errorf("the one spec was told of %d times", told)
	}
	found := reconcile()
	found.Generation++
	if err := kcp.Update(t.Context(), found); err != nil {
		t.Fatal(err)
	}
	reconcile()
	if told != 2 {
		t.Errorf("a change of the spec was told of %d times", told-1)
	}
	if err := kcp.Delete(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Reconcile(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	if views, _ := c.sources.look([]string{"storefront"}); len(views) > 0 {
		t.Error("the namespace of a Baseline that is gone is still followed")
	}
	if told != 3 {
		t.Errorf("its end was told of %d times", told-2)
	}
}
