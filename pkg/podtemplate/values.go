// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package podtemplate

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// Bounds are how much a tenant's pod may ask for.
type Bounds struct {
	// Min and Max bound each container's requests and limits of a resource; Default is the
	// limit of one that names none.
	Min, Max, Default corev1.ResourceList
	// Request is the request of a container that names neither a request nor a limit of a resource.
	Request corev1.ResourceList
	// Requests are the most that a pod's containers may request together: the quota of its placement has
	// no room for more, even if nothing else is there.
	Requests corev1.ResourceList
	// Resources are the names that a container may ask for.
	Resources []corev1.ResourceName
	// EmptyDir and MemoryEmptyDir bound emptyDir volumes on disk and in memory.
	EmptyDir, MemoryEmptyDir Sizes
}

// Sizes are a default and a maximum.
type Sizes struct{ Default, Max resource.Quantity }

// of are the sizes for a medium.
func (b *Bounds) sizesOf(medium corev1.StorageMedium) Sizes {
	if medium == corev1.StorageMediumMemory {
		return b.MemoryEmptyDir
	}
	return b.EmptyDir
}

// restricted is the pod security level at which no pod is root on its node.
const restricted = "restricted"

func onlyAlways(w *walker, f field) {
	if f.value != corev1.RestartPolicyAlways {
		w.add(f.path, "must be Always: a sandbox runs until it is suspended")
	}
}

func shortGrace(w *walker, f field) {
	if f.value.(int64) > MaxGraceSeconds {
		w.add(f.path, "must be at most %d", MaxGraceSeconds)
	}
}

func ifTrue(w *walker, f field) {
	if f.value == true {
		w.refuse(f)
	}
}

func onlyLinux(w *walker, f field) {
	if f.value != corev1.Linux {
		w.add(f.path, "must be linux")
	}
}

func nodeResolver(w *walker, f field) {
	if f.value != corev1.DNSClusterFirst && f.value != corev1.DNSNone {
		w.refuse(f)
	}
}

// operatorsRuntime lets a pod name the runtime class that it has in any case.
func operatorsRuntime(w *walker, f field) {
	wanted := w.rules.RuntimeClassName
	if base := f.base.(string); base != "" {
		wanted = base
	}
	if f.value != wanted {
		w.add(f.path, "is not a tenant's to set, and the operator's is %q; remove it", wanted)
	}
}

func ifPropagated(w *walker, f field) {
	if f.value != corev1.MountPropagationNone {
		w.refuse(f)
	}
}

func ifUnmasked(w *walker, f field) {
	if f.value != corev1.DefaultProcMount {
		w.refuse(f)
	}
}

func ifHugepages(w *walker, f field) {
	if f.value != corev1.StorageMediumMemory {
		w.refuse(f)
	}
}

// ofTheNode refuses what names the node. The list is one of what is allowed, so that a field that
// Kubernetes adds is refused until it is decided.
func ofTheNode(w *walker, f field) {
	path := f.value.(string)
	switch {
	case strings.HasPrefix(path, "metadata."):
	case path == "spec.serviceAccountName", path == "status.podIP", path == "status.podIPs":
	default:
		w.refuse(f)
	}
}

// notControl keeps the token with which the data plane talks to a runner from the app.
func notControl(w *walker, f field) {
	var name string
	switch secret := f.value.(type) {
	case corev1.SecretEnvSource:
		name = secret.Name
	case corev1.SecretKeySelector:
		name = secret.Name
	case corev1.SecretProjection:
		name = secret.Name
	}
	notControlName(w, field{path: f.path + ".name", value: name})
}

func notControlName(w *walker, f field) {
	if f.value == placement.ControlSecret {
		w.add(f.path, "%s is between the data plane and a runner, which a pod of yours does not have; remove it", placement.ControlSecret)
	}
}

// notRootsGroup refuses group 0 where that is the group of the node's root.
func notRootsGroup(w *walker, f field) {
	if w.rules.PodSecurity != restricted || w.pod.HostUsers != nil && !*w.pod.HostUsers {
		return
	}
	zero := false
	switch groups := f.value.(type) {
	case int64:
		zero = groups == 0
	case []int64:
		zero = slices.Contains(groups, 0)
	}
	if zero {
		w.add(f.path, "0 is the group of the node's root; choose another, or set hostUsers to false")
	}
}

// withinBounds holds requests or limits to the operator's bounds. Zero above all: a node takes a
// limit of zero for none, and what requests zero is in no quota.
func withinBounds(w *walker, f field) {
	bounds := &w.rules.Bounds
	list, base := f.value.(corev1.ResourceList), f.base.(corev1.ResourceList)
	for _, name := range slices.Sorted(maps.Keys(list)) {
		at, value := f.path+"["+string(name)+"]", list[name]
		theirs, isBase := base[name]
		least, isBounded := bounds.Min[name]
		most := bounds.Max[name]
		switch {
		case isBase && theirs.Cmp(value) == 0:
		case !slices.Contains(bounds.Resources, name):
			w.add(at, "is not a tenant's to ask for; the resources here are %s. Remove it, or ask the operator to count it (spec.quota.hard[%s])",
				joined(bounds.Resources), "requests."+string(name))
		case !isBounded:
		case value.Cmp(least) < 0:
			byDefault := bounds.Default[name]
			w.add(at, "%s is too little; give %s at least, or remove it for the default (a limit of %s)", value.String(), least.String(), byDefault.String())
		case value.Cmp(most) > 0:
			w.add(at, "%s is too much; give %s at most, or ask the operator for more (spec.quota.max)", value.String(), most.String())
		}
	}
}

func joined(names []corev1.ResourceName) string {
	texts := make([]string, len(names))
	for i, name := range names {
		texts[i] = string(name)
	}
	return strings.Join(texts, ", ")
}

// withinSizes holds an emptyDir's size to the operator's bounds. Zero is no limit.
func withinSizes(w *walker, f field) {
	volume, size := f.parent.(corev1.EmptyDirVolumeSource), f.value.(resource.Quantity)
	sizes := w.rules.Bounds.sizesOf(volume.Medium)
	switch {
	case size.Sign() <= 0:
		w.add(f.path, "%s is no limit; give a size above zero, or remove it for the default of %s", size.String(), sizes.Default.String())
	case size.Cmp(sizes.Max) > 0:
		w.add(f.path, "%s is too much; give %s at most, or ask the operator for more (spec.quota.emptyDir)", size.String(), sizes.Max.String())
	}
}

// fillSizes gives each emptyDir without a size the default of its medium, and returns which.
func fillSizes(spec *corev1.PodSpec, bounds *Bounds) (filled []int) {
	for i := range spec.Volumes {
		volume := spec.Volumes[i].EmptyDir
		if volume == nil || volume.SizeLimit != nil {
			continue
		}
		size := bounds.sizesOf(volume.Medium).Default
		volume.SizeLimit = &size
		filled = append(filled, i)
	}
	return filled
}
