// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package export

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	kcpapisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

func TestTheSliceNamesTheEndpointsOnce(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := kcpapisv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	slice := &kcpapisv1alpha1.APIExportEndpointSlice{}
	slice.Name = "sandbar.dev"
	for _, url := range []string{"https://b", "https://a/", "", "https://b"} {
		slice.Status.APIExportEndpoints = append(slice.Status.APIExportEndpoints, kcpapisv1alpha1.APIExportEndpoint{URL: url})
	}
	reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(slice).Build()
	for name, want := range map[string][]string{"sandbar.dev": {"https://a", "https://b"}, "missing": nil} {
		got, err := ReadEndpoints(t.Context(), reader, name)
		if apierrors.IsNotFound(err) != (want == nil) {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got.URLs); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
