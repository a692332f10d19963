// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/sandbar-dev/sandbar/pkg/limitstable"
)

// of lists the quantities of some resources as the document does.
func of(list corev1.ResourceList, names ...corev1.ResourceName) string {
	numbers := make([]string, len(names))
	for i, name := range names {
		quantity := list[name]
		numbers[i] = quantity.String()
	}
	return strings.Join(numbers, ", ")
}

func TestTheTableOfLimitsHasTheNumbersOfPlacements(t *testing.T) {
	none := of(defaultHard, corev1.ResourceServicesNodePorts, corev1.ResourceServicesLoadBalancers)
	if none != "0, 0" {
		t.Errorf("node ports and load balancers: %s, and the document says none", none)
	}
	limitstable.Check(t, "../../../docs/limits.md", "What a placement and its pods may use", true,
		limitstable.Limit{
			Name:   "`hard`: requests of cpu, memory, ephemeral storage, volumes",
			Number: of(defaultHard, corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory, corev1.ResourceRequestsEphemeralStorage, corev1.ResourceRequestsStorage),
		},
		limitstable.Limit{
			Name:   "`hard`: limits of cpu, memory, ephemeral storage",
			Number: of(defaultHard, corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory, corev1.ResourceLimitsEphemeralStorage),
		},
		limitstable.Limit{
			Name:   "`hard`: pods, Services, Secrets, ConfigMaps, volumes, HTTPRoutes; node ports, load balancers",
			Number: of(defaultHard, corev1.ResourcePods, corev1.ResourceServices, corev1.ResourceSecrets, corev1.ResourceConfigMaps, corev1.ResourcePersistentVolumeClaims, countHTTPRoutes) + "; none",
		},
		limitstable.Limit{
			Name:   "`min` of a container: cpu, memory, ephemeral storage",
			Number: of(defaultMin, bounded...), Says: []string{"give " + of(defaultMin, corev1.ResourceMemory) + " at least"},
		},
		limitstable.Limit{
			Name: "`max` of a container, `podMax` of a pod", Number: "the limits of `hard`",
			Says: []string{"give " + of(defaultHard, corev1.ResourceLimitsMemory) + " at most"},
		},
		limitstable.Limit{Name: "resources with another name", Number: "none"},
		limitstable.Limit{
			Name:   "`emptyDir.max`, `emptyDir.memoryMax`",
			Number: defaultEmptyDirMax.String() + ", " + defaultMemoryMax.String() + "; left out " + defaultEmptyDir.String() + ", " + defaultMemoryEmptyDir.String(),
		},
		limitstable.Limit{
			Name: "`volume.min`, `volume.max`", Number: defaultVolumeMin.String() + ", " + of(defaultHard, corev1.ResourceRequestsStorage),
			Says: []string{"PersistentVolumeClaim is " + of(defaultHard, corev1.ResourceRequestsStorage)},
		},
	)
}
