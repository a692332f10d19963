// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package place

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sandbar-dev/sandbar/pkg/podtemplate"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/quota"
)

// NameOfBounds is the name of the ResourceQuota and of the LimitRange in each placement.
const NameOfBounds = "sandbar"

// BoundsOf returns those of the placement: what the operator set, with the defaults.
func BoundsOf(s *scope.Scope) (*quota.Bounds, error) {
	bounds, err := quota.Of(&s.Infrastructure().Quota)
	var wrong *quota.Error
	if errors.As(err, &wrong) {
		return nil, &outcome.ConfigurationError{Problem: wrong.Error()}
	}
	return bounds, err
}

// BuildQuota builds the ResourceQuota of a placement.
func BuildQuota(s *scope.Scope, bounds *quota.Bounds) *corev1.ResourceQuota {
	return &corev1.ResourceQuota{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ResourceQuota"},
		ObjectMeta: s.ObjectMeta(NameOfBounds),
		Spec:       corev1.ResourceQuotaSpec{Hard: bounds.Hard},
	}
}

// BuildLimits gives each container a request and a limit above zero, whether a tenant or a graph wrote its pod: the
// quota counts nothing that asks for zero, and a node takes a limit of zero for none. It binds
// pods when they are created; those that run are left alone.
func BuildLimits(s *scope.Scope, bounds *quota.Bounds) *corev1.LimitRange {
	return &corev1.LimitRange{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "LimitRange"},
		ObjectMeta: s.ObjectMeta(NameOfBounds),
		Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{
			{
				Type: corev1.LimitTypeContainer,
				Min:  bounds.Min, Max: bounds.Max, Default: bounds.Limit, DefaultRequest: bounds.Request,
			},
			{Type: corev1.LimitTypePod, Max: bounds.PodMax},
			{
				Type: corev1.LimitTypePersistentVolumeClaim,
				Min:  corev1.ResourceList{corev1.ResourceStorage: bounds.VolumeMin},
				Max:  corev1.ResourceList{corev1.ResourceStorage: bounds.VolumeMax},
			},
		}},
	}
}

// podBounds are the bounds of a tenant's pod template.
func podBounds(bounds *quota.Bounds) podtemplate.Bounds {
	return podtemplate.Bounds{
		Min: bounds.Min, Max: bounds.Max, Default: bounds.Limit, Resources: bounds.Resources(),
		Request: bounds.Request, Requests: bounds.Requests(),
		EmptyDir: podtemplate.Sizes(bounds.EmptyDir), MemoryEmptyDir: podtemplate.Sizes(bounds.MemoryEmptyDir),
	}
}
