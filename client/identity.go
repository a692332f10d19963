// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"fmt"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
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

// signTimeout bounds the question who creates an object; the creation itself does not depend on it.
const signTimeout = 5 * time.Second

// Signer writes into objects that are about to be created who creates them: the annotation sandbar.dev/created-by, with the
// user name that the workspace has for the credential. It asks the workspace once. It can be used by several goroutines.
type Signer struct {
	workspace *rest.Config

	mu   sync.Mutex
	name string // empty until the workspace has told it
}

// NewSigner returns the Signer of the credential that a configuration has, in the workspace that it leads to.
func NewSigner(workspace *rest.Config) *Signer { return &Signer{workspace: workspace} }

// Sign leaves an object alone that has the annotation, and one whose creator the workspace does not tell: that is created
// without.
func (s *Signer) Sign(ctx context.Context, obj *unstructured.Unstructured) {
	annotations := obj.GetAnnotations()
	if _, signed := annotations[sandbarv1alpha1.AnnotationCreatedBy]; signed {
		return
	}
	name := s.creator(ctx)
	if name == "" {
		return
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[sandbarv1alpha1.AnnotationCreatedBy] = name
	obj.SetAnnotations(annotations)
}

// creator is the user name of the credential; empty if the workspace does not tell it.
func (s *Signer) creator(ctx context.Context) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.name == "" {
		ctx, cancel := context.WithTimeout(ctx, signTimeout)
		defer cancel()
		if me, err := WhoAmI(ctx, s.workspace); err == nil && me.Username != Anonymous {
			s.name = me.Username
		}
	}
	return s.name
}
