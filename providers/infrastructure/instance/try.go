// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/place"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/platform"
)

// Try reports whether placements can be made with the operator's settings: it makes what isolates and
// bounds one as a dry run. What is wrong there is wrong for every instance of every tenant, who can
// do nothing about it, so the operator is told before it counts. The error is platform.ErrRefused if
// the settings are at fault.
func Try(runtime client.Client, names placement.Names) func(context.Context, *sandbarv1alpha1.InfrastructureProviderSpec) error {
	return func(ctx context.Context, spec *sandbarv1alpha1.InfrastructureProviderSpec) error {
		s := sample(spec, names)
		ingress, err := place.BuildIngress(s)
		if err != nil {
			return refusedSettings(err)
		}
		egress, err := place.BuildEgress(s)
		if err != nil {
			return refusedSettings(err)
		}
		bounds, err := place.BoundsOf(s)
		if err != nil {
			return refusedSettings(err)
		}
		for _, object := range []client.Object{place.BuildQuota(s, bounds), place.BuildLimits(s, bounds), ingress, egress} {
			// Not in a placement, of which there may be none.
			object.SetNamespace(names.SystemNamespace())
			err := runtime.Create(ctx, object, client.DryRunAll, client.FieldOwner(fieldOwner))
			switch {
			case err == nil, apierrors.IsAlreadyExists(err):
			case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
				return refusedSettings(err)
			default:
				return fmt.Errorf("trying the settings: %w", err)
			}
		}
		return nil
	}
}

func refusedSettings(err error) error {
	var configuration *outcome.ConfigurationError
	if errors.As(err, &configuration) {
		return fmt.Errorf("%w: correct the %s", platform.ErrRefused, configuration.Error())
	}
	return fmt.Errorf("%w; correct spec.quota or spec.isolation: %w", platform.ErrRefused, err)
}

// sample is the scope of an instance that there is not.
func sample(spec *sandbarv1alpha1.InfrastructureProviderSpec, names placement.Names) *scope.Scope {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetName("sandbar-try")
	object.SetNamespace(metav1.NamespaceDefault)
	return scope.New(scope.Kind{Template: "sandbar-try"}, scope.Settings{Infrastructure: spec, Names: names}, object, sandbarv1alpha1.InstanceStatus{},
		placement.Placed{ID: placement.ID{Origin: "sandbar-try", UID: "sandbar-try"}})
}
