// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package clone

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// maxGraceSeconds bounds how long a tenant may have a pod take to end.
const maxGraceSeconds = 300

// change is a field that differs from the workload's.
type change struct {
	// value and source are what the field holds, in the copy and in the workload; pointers are followed.
	value, source any
	// set: the copy has the field, if only with a zero value.
	set bool
	// pod is the workload's.
	pod *corev1.PodSpec
}

// fieldCheck reports the changes that a tenant may make. It is called for changes alone.
type fieldCheck func(c change) bool

// inside, of a struct or a list of structs, has the fields inside decided one by one.
var inside fieldCheck

func anyValue(change) bool { return true }

// never is the check of a field without a rule.
func never(change) bool { return false }

// onlyGone allows a field to be left out or to be false.
func onlyGone(c change) bool {
	switch value := c.value.(type) {
	case bool:
		return !value
	case string:
		return value == ""
	case int32:
		return value == 0
	}
	return !c.set
}

// onlyFalse wants the word: left out, these fields are true.
func onlyFalse(c change) bool { return c.set && c.value == false }
func onlyTrue(c change) bool  { return c.set && c.value == true }

// notRoot wants an ID: left out, the image says who runs.
func notRoot(c change) bool {
	id, ok := c.value.(int64)
	return ok && c.set && id > 0
}

func onlyAlways(c change) bool { return c.value == corev1.RestartPolicyAlways }

func onlyStrict(c change) bool { return c.value == corev1.SupplementalGroupsPolicyStrict }

func maskedProc(c change) bool { return c.value == corev1.DefaultProcMount }

func onlyUnshared(c change) bool { return !c.set || c.value == corev1.MountPropagationNone }

func shortGrace(c change) bool {
	seconds, ok := c.value.(int64)
	return ok && seconds <= maxGraceSeconds
}

func ownResolver(c change) bool {
	return c.value == corev1.DNSClusterFirst || c.value == corev1.DNSNone
}

func noHugepages(c change) bool {
	return c.value == corev1.StorageMediumDefault || c.value == corev1.StorageMediumMemory
}

func aboveZero(c change) bool {
	size, ok := c.value.(resource.Quantity)
	return !c.set || ok && size.Sign() > 0
}

// fieldOfPod lists what is allowed, so that a field that Kubernetes adds is refused until it is decided.
func fieldOfPod(c change) bool {
	selector, ok := c.value.(corev1.ObjectFieldSelector)
	return ok && (!c.set || strings.HasPrefix(selector.FieldPath, "metadata.") ||
		slices.Contains([]string{"spec.serviceAccountName", "status.podIP", "status.podIPs"}, selector.FieldPath))
}

// runtimesSeccomp allows the runtime's own profile, if the workload has no profile of its node's, which may be narrower.
func runtimesSeccomp(c change) bool {
	profile, ok := c.value.(corev1.SeccompProfile)
	return ok && profile == corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault} && !localProfile(c.pod)
}

func runtimesAppArmor(c change) bool {
	profile, ok := c.value.(corev1.AppArmorProfile)
	return ok && profile == corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeRuntimeDefault} && !localProfile(c.pod)
}

// localProfile reports whether a pod has a profile that its node keeps.
func localProfile(pod *corev1.PodSpec) bool {
	if s := pod.SecurityContext; s != nil && isLocal(s.SeccompProfile, s.AppArmorProfile) {
		return true
	}
	for _, list := range containerLists(pod) {
		for i := range list.containers {
			if s := list.containers[i].SecurityContext; s != nil && isLocal(s.SeccompProfile, s.AppArmorProfile) {
				return true
			}
		}
	}
	return false
}

func isLocal(seccomp *corev1.SeccompProfile, appArmor *corev1.AppArmorProfile) bool {
	return seccomp != nil && seccomp.Type == corev1.SeccompProfileTypeLocalhost ||
		appArmor != nil && appArmor.Type == corev1.AppArmorProfileTypeLocalhost
}

// fewerCapabilities allows dropping more and adding less.
func fewerCapabilities(c change) bool {
	own, _ := c.value.(corev1.Capabilities)
	theirs, _ := c.source.(corev1.Capabilities)
	return containsAll(theirs.Add, own.Add) && containsAll(own.Drop, theirs.Drop)
}

func containsAll(all, some []corev1.Capability) bool {
	return !slices.ContainsFunc(some, func(c corev1.Capability) bool { return !slices.Contains(all, c) })
}

// countedResources allows what the quota of a placement counts. Zero is what no quota counts, and a node takes a limit of
// zero for none.
func countedResources(c change) bool {
	own, ok := c.value.(corev1.ResourceRequirements)
	theirs, _ := c.source.(corev1.ResourceRequirements)
	return ok && len(own.Claims) == 0 && counted(own.Requests, theirs.Requests) && counted(own.Limits, theirs.Limits)
}

func counted(own, theirs corev1.ResourceList) bool {
	for name, quantity := range own {
		source, isTheirs := theirs[name]
		known := name == corev1.ResourceCPU || name == corev1.ResourceMemory || name == corev1.ResourceEphemeralStorage
		switch {
		case isTheirs && quantity.Cmp(source) == 0:
		case !known || quantity.Sign() <= 0:
			return false
		}
	}
	return true
}
