// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// nameOfBounds is the name of the ResourceQuota and of the LimitRange in each placement.
const nameOfBounds = "sandbar"

// defaultHard bounds what one placement may take. Node ports and load balancers are zero: they
// would lead around the data plane's authorization. The counts bound what a tenant can make
// etcd hold through one object.
var defaultHard = corev1.ResourceList{
	corev1.ResourceRequestsCPU:            resource.MustParse("4"),
	corev1.ResourceLimitsCPU:              resource.MustParse("8"),
	corev1.ResourceRequestsMemory:         resource.MustParse("8Gi"),
	corev1.ResourceLimitsMemory:           resource.MustParse("16Gi"),
	corev1.ResourceRequestsStorage:        resource.MustParse("50Gi"),
	corev1.ResourcePods:                   resource.MustParse("20"),
	corev1.ResourceServices:               resource.MustParse("20"),
	corev1.ResourceServicesNodePorts:      resource.MustParse("0"),
	corev1.ResourceServicesLoadBalancers:  resource.MustParse("0"),
	corev1.ResourceSecrets:                resource.MustParse("50"),
	corev1.ResourceConfigMaps:             resource.MustParse("50"),
	corev1.ResourcePersistentVolumeClaims: resource.MustParse("10"),
}

// defaultRequest is small, so that idle sandboxes pack densely.
var defaultRequest = corev1.ResourceList{
	corev1.ResourceCPU:    resource.MustParse("50m"),
	corev1.ResourceMemory: resource.MustParse("128Mi"),
}

// defaultLimit holds one development server with its build.
var defaultLimit = corev1.ResourceList{
	corev1.ResourceCPU:    resource.MustParse("2"),
	corev1.ResourceMemory: resource.MustParse("2Gi"),
}

func buildQuota(s *scope) *corev1.ResourceQuota {
	return &corev1.ResourceQuota{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ResourceQuota"},
		ObjectMeta: s.objectMeta(nameOfBounds),
		Spec:       corev1.ResourceQuotaSpec{Hard: withDefaults(s.infrastructure.Quota.Hard, defaultHard)},
	}
}

// buildLimits gives containers that name no resources something, because the quota would
// refuse them otherwise.
func buildLimits(s *scope) *corev1.LimitRange {
	return &corev1.LimitRange{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "LimitRange"},
		ObjectMeta: s.objectMeta(nameOfBounds),
		Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
			Type:           corev1.LimitTypeContainer,
			Default:        withDefaults(s.infrastructure.Quota.DefaultLimit, defaultLimit),
			DefaultRequest: withDefaults(s.infrastructure.Quota.DefaultRequest, defaultRequest),
		}}},
	}
}

func withDefaults(list, defaults corev1.ResourceList) corev1.ResourceList {
	merged := maps.Clone(defaults)
	maps.Copy(merged, list)
	return merged
}
