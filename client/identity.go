// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// Anonymous is the user name of a caller whose credential kcp did not recognize, or that has none.
const Anonymous = "system:anonymous"

// Identity is the user that kcp takes a credential for.
type Identity struct {
	Username string              `json:"username"`
	UID      string              `json:"uid,omitempty"`
	Groups   []string            `json:"groups,omitempty"`
	Extra    map[string][]string `json:"extra,omitempty"`
}

// WhoAmI asks the workspace which user its credential belongs to (a SelfSubjectReview). A credential that kcp does not
// know is an Unauthorized error of apimachinery, or the user [Anonymous]; a user without access to the workspace is a
// Forbidden error.
func WhoAmI(ctx context.Context, workspace *rest.Config) (*Identity, error) {
	objects, err := dynamic.NewForConfig(WithoutRedirects(workspace))
	if err != nil {
		return nil, fmt.Errorf("making a client for the workspace: %w", err)
	}
	ask := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}}
	answer, err := objects.Resource(authenticationv1.SchemeGroupVersion.WithResource("selfsubjectreviews")).Create(ctx, ask, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("asking the workspace who you are: %w", err)
	}
	var review authenticationv1.SelfSubjectReview
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(answer.Object, &review); err != nil {
		return nil, fmt.Errorf("reading who you are: %w", err)
	}
	user := review.Status.UserInfo
	found := &Identity{Username: user.Username, UID: user.UID, Groups: user.Groups}
	for key, values := range user.Extra {
		if found.Extra == nil {
			found.Extra = map[string][]string{}
		}
		found.Extra[key] = values
	}
	return found, nil
}
