// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// WhoAmI returns how the workspace knows the caller, as the server answered and decoded.
func (c *Client) WhoAmI(ctx context.Context) (*unstructured.Unstructured, authenticationv1.UserInfo, error) {
	gv := authenticationv1.SchemeGroupVersion
	ask := &unstructured.Unstructured{Object: map[string]any{}}
	ask.SetGroupVersionKind(gv.WithKind("SelfSubjectReview"))
	answer, err := c.objects.Resource(gv.WithResource("selfsubjectreviews")).Create(ctx, ask, metav1.CreateOptions{})
	if err != nil {
		return nil, authenticationv1.UserInfo{}, fmt.Errorf("asking the workspace who you are: %w", err)
	}
	var review authenticationv1.SelfSubjectReview
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(answer.Object, &review); err != nil {
		return nil, authenticationv1.UserInfo{}, fmt.Errorf("reading who you are: %w", err)
	}
	return answer, review.Status.UserInfo, nil
}
