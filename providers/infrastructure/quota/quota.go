// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// Prefixes of the keys of a ResourceQuota.
const (
	requestsPrefix = corev1.DefaultResourceRequestsPrefix
	limitsPrefix   = "limits."
)

// bounded are the resources of every container: each has a request and a limit above zero.
var bounded = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage}

// defaultHard bounds what one placement may take. Node ports and load balancers are zero: they
// would lead around the data plane's authorization. The counts bound what a tenant can make
// etcd hold through one object.
var defaultHard = corev1.ResourceList{
	corev1.ResourceRequestsCPU:              resource.MustParse("4"),
	corev1.ResourceLimitsCPU:                resource.MustParse("8"),
	corev1.ResourceRequestsMemory:           resource.MustParse("8Gi"),
	corev1.ResourceLimitsMemory:             resource.MustParse("16Gi"),
	corev1.ResourceRequestsEphemeralStorage: resource.MustParse("10Gi"),
	corev1.ResourceLimitsEphemeralStorage:   resource.MustParse("40Gi"),
	corev1.ResourceRequestsStorage:          resource.MustParse("50Gi"),
	corev1.ResourcePods:                     resource.MustParse("20"),
	corev1.ResourceServices:                 resource.MustParse("20"),
	corev1.ResourceServicesNodePorts:        resource.MustParse("0"),
	corev1.ResourceServicesLoadBalancers:    resource.MustParse("0"),
	corev1.ResourceSecrets:                  resource.MustParse("50"),
	corev1.ResourceConfigMaps:               resource.MustParse("50"),
	corev1.ResourcePersistentVolumeClaims:   resource.MustParse("10"),
	countHTTPRoutes:                         resource.MustParse("20"),
}

// countHTTPRoutes bounds the HTTPRoutes of a placement: each costs every Gateway that it names.
const countHTTPRoutes corev1.ResourceName = "count/httproutes.gateway.networking.k8s.io"

// defaultRequest is small, so that idle sandboxes pack densely.
var defaultRequest = corev1.ResourceList{
	corev1.ResourceCPU:              resource.MustParse("50m"),
	corev1.ResourceMemory:           resource.MustParse("128Mi"),
	corev1.ResourceEphemeralStorage: resource.MustParse("64Mi"),
}

// defaultLimit holds one development server with its build.
var defaultLimit = corev1.ResourceList{
	corev1.ResourceCPU:              resource.MustParse("2"),
	corev1.ResourceMemory:           resource.MustParse("2Gi"),
	corev1.ResourceEphemeralStorage: resource.MustParse("4Gi"),
}

// defaultMin is as low as a process can start with. It is not zero: a node takes a limit of zero
// for none, and such a container could fill the node's memory and disk, also through tmpfs.
var defaultMin = corev1.ResourceList{
	corev1.ResourceCPU:              resource.MustParse("1m"),
	corev1.ResourceMemory:           resource.MustParse("4Mi"),
	corev1.ResourceEphemeralStorage: resource.MustParse("1Mi"),
}

var (
	defaultVolumeMin      = resource.MustParse("1Mi")
	defaultEmptyDir       = resource.MustParse("4Gi")
	defaultEmptyDirMax    = resource.MustParse("8Gi")
	defaultMemoryEmptyDir = resource.MustParse("256Mi")
	defaultMemoryMax      = resource.MustParse("1Gi")
)

// Bounds are the complete bounds of a placement.
type Bounds struct {
	// Hard is the ResourceQuota.
	Hard corev1.ResourceList
	// Request and Limit are what a container gets that names none.
	Request, Limit corev1.ResourceList
	// Min and Max are the least and the most of one container, PodMax the most of one pod.
	Min, Max, PodMax corev1.ResourceList
	// VolumeMin and VolumeMax bound each persistent volume.
	VolumeMin, VolumeMax resource.Quantity
	// EmptyDir and MemoryEmptyDir are the sizes of emptyDir volumes on disk and in memory.
	EmptyDir, MemoryEmptyDir Sizes
}

// Sizes are a default and a maximum.
type Sizes struct{ Default, Max resource.Quantity }

// Of completes what the operator set. Defaults give way to it: a default limit is never above
// the maximum that the operator chose. The error is an *Error if the operator's own values
// contradict each other.
func Of(spec *sandbarv1alpha1.Quota) (*Bounds, error) {
	b := &Bounds{Hard: withDefaults(spec.Hard, defaultHard)}
	limits := b.limits()
	b.Max = withDefaults(spec.Max, limits)
	b.PodMax = withDefaults(spec.PodMax, limits)
	b.Min = withDefaults(spec.Min, atMost(defaultMin, b.Max))
	b.Limit = withDefaults(spec.DefaultLimit, atMost(defaultLimit, b.Max))
	b.Request = withDefaults(spec.DefaultRequest, atMost(defaultRequest, b.Limit))
	b.VolumeMax = orDefault(spec.Volume.Max, b.Hard[corev1.ResourceRequestsStorage])
	b.VolumeMin = orDefault(spec.Volume.Min, least(defaultVolumeMin, b.VolumeMax))
	b.EmptyDir = sizes(spec.EmptyDir.Default, spec.EmptyDir.Max, Sizes{defaultEmptyDir, defaultEmptyDirMax})
	b.MemoryEmptyDir = sizes(spec.EmptyDir.MemoryDefault, spec.EmptyDir.MemoryMax, Sizes{defaultMemoryEmptyDir, defaultMemoryMax})
	return b, b.check(spec)
}

// limits are the limits.<name> of the quota for the resources of every container.
func (b *Bounds) limits() corev1.ResourceList {
	limits := corev1.ResourceList{}
	for _, name := range bounded {
		limits[name] = b.Hard[limitsPrefix+name]
	}
	return limits
}

// Resources lists the resources that a tenant's container may name, sorted: those of every
// container, and what the quota counts besides. Whatever no quota counts, hugepages and
// devices above all, a tenant could take from all others.
func (b *Bounds) Resources() []corev1.ResourceName {
	names := slices.Clone(bounded)
	for key := range b.Hard {
		name, ok := strings.CutPrefix(string(key), requestsPrefix)
		if ok && key != corev1.ResourceRequestsStorage && !slices.Contains(names, corev1.ResourceName(name)) {
			names = append(names, corev1.ResourceName(name))
		}
	}
	slices.Sort(names)
	return names
}

// Requests are the most that the containers of one pod may request together, because the quota counts it.
// Quotas call cpu, memory and ephemeral-storage by two names each.
func (b *Bounds) Requests() corev1.ResourceList {
	most := corev1.ResourceList{}
	for key, value := range b.Hard {
		name, ok := strings.CutPrefix(string(key), requestsPrefix)
		if !ok && !slices.Contains(bounded, key) || key == corev1.ResourceRequestsStorage {
			continue
		}
		if before, is := most[corev1.ResourceName(name)]; is {
			value = least(value, before)
		}
		most[corev1.ResourceName(name)] = value
	}
	return most
}

func withDefaults(list, defaults corev1.ResourceList) corev1.ResourceList {
	merged := maps.Clone(defaults)
	maps.Copy(merged, list)
	return merged
}

// atMost lowers values that are above those of another list.
func atMost(list, most corev1.ResourceList) corev1.ResourceList {
	lowered := corev1.ResourceList{}
	for name, value := range list {
		lowered[name] = least(value, most[name])
	}
	return lowered
}

func least(a, b resource.Quantity) resource.Quantity {
	if a.Cmp(b) > 0 {
		return b
	}
	return a
}

func orDefault(value *resource.Quantity, byDefault resource.Quantity) resource.Quantity {
	if value != nil {
		return *value
	}
	return byDefault
}

func sizes(size, most *resource.Quantity, defaults Sizes) Sizes {
	s := Sizes{Max: orDefault(most, defaults.Max)}
	s.Default = orDefault(size, least(defaults.Default, s.Max))
	return s
}
