// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// restricted is the level that every runtime cluster is prepared for.
const restricted = "restricted"

// LevelRefused reports whether an error is the admission policy's, which refuses a Namespace with a
// pod security level that the runtime cluster was not prepared for.
func LevelRefused(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "spec.isolation.podSecurity")
}

// LevelProblem tells an operator what to do about it.
func LevelProblem(level string) string {
	return fmt.Sprintf("InfrastructureProvider spec.isolation.podSecurity: the runtime cluster was not prepared for the level %s; "+
		"run sandbar-provider init again, as an administrator of that cluster, or choose a stricter one", level)
}

// checkLevel tries a Namespace with the level that the operator has set: the first instance that
// is placed would be the next to find out. It returns what is wrong, or nothing.
func (r *reconciler) checkLevel(ctx context.Context, spec *sandbarv1alpha1.InfrastructureProviderSpec) (string, error) {
	level := spec.Isolation.PodSecurity
	if level == "" || level == restricted {
		return "", nil
	}
	// A name of the form that placements have, which no placement has.
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: placement.ID{}.Namespace(), Labels: map[string]string{"pod-security.kubernetes.io/enforce": level},
	}}
	err := r.runtime.Create(ctx, ns, client.DryRunAll)
	switch {
	case LevelRefused(err):
		return LevelProblem(level), nil
	case err != nil:
		return "", fmt.Errorf("trying the pod security level of placements: %w", err)
	}
	return "", nil
}
