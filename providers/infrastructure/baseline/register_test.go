// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package baseline

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// The controllers of a provider that was upgraded, and on which init has not been run again, ended every two minutes.
func TestTheControllerWaitsForItsKind(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := sandbarv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		lists := 0
		kcp := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				if lists++; lists < 4 {
					return &meta.NoKindMatchError{}
				}
				return c.List(ctx, list, opts...)
			},
		}).Build()
		began := time.Now()
		if !served(t.Context(), kcp, tryAgain) || lists != 4 || time.Since(began) != 3*tryAgain {
			t.Errorf("%d lists in %s", lists, time.Since(began))
		}
		lists = -1 << 20
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if served(ctx, kcp, tryAgain) {
			t.Error("it has begun without its kind")
		}
	})
}
