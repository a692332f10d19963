// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

func list(pairs ...string) corev1.ResourceList {
	l := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		l[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return l
}

func quantity(text string) *resource.Quantity { return new(resource.MustParse(text)) }

func TestTheDefaultsHaveABoundAboveZeroForEverything(t *testing.T) {
	b, err := Of(&sandbarv1alpha1.Quota{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range bounded {
		for field, of := range map[string]corev1.ResourceList{"min": b.Min, "max": b.Max, "podMax": b.PodMax, "request": b.Request, "limit": b.Limit} {
			if value := of[name]; value.Sign() <= 0 {
				t.Errorf("%s of %s is %s", field, name, value.String())
			}
		}
		for _, prefix := range []corev1.ResourceName{requestsPrefix, limitsPrefix} {
			if value, ok := b.Hard[prefix+name]; !ok || value.Sign() <= 0 {
				t.Errorf("the quota does not count %s%s", prefix, name)
			}
		}
	}
}

func TestDefaultsGiveWayToTheOperator(t *testing.T) {
	b, err := Of(&sandbarv1alpha1.Quota{
		Hard:   list("limits.memory", "1Gi", "requests.nvidia.com/gpu", "2", "requests.storage", "2Gi", "limits.cpu", "16"),
		Max:    list("cpu", "500m"),
		PodMax: list("cpu", "1"),
		EmptyDir: sandbarv1alpha1.EmptyDirBounds{
			Max: quantity("1Gi"), MemoryMax: quantity("128Mi"),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for name, q := range map[string]resource.Quantity{
		"memory limit": b.Limit[corev1.ResourceMemory], "memory max": b.Max[corev1.ResourceMemory], "memory of a pod": b.PodMax[corev1.ResourceMemory],
		"cpu limit": b.Limit[corev1.ResourceCPU], "cpu request": b.Request[corev1.ResourceCPU], "cpu of a pod": b.PodMax[corev1.ResourceCPU],
		"volume": b.VolumeMax, "emptyDir": b.EmptyDir.Default, "emptyDir in memory": b.MemoryEmptyDir.Default,
	} {
		got[name] = q.String()
	}
	want := map[string]string{
		"memory limit": "1Gi", "memory max": "1Gi", "memory of a pod": "1Gi",
		"cpu limit": "500m", "cpu request": "50m", "cpu of a pod": "1",
		"volume": "2Gi", "emptyDir": "1Gi", "emptyDir in memory": "128Mi",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]corev1.ResourceName{"cpu", "ephemeral-storage", "memory", "nvidia.com/gpu"}, b.Resources()); diff != "" {
		t.Errorf("what a tenant may ask for (-want +got):\n%s", diff)
	}
}

func TestWhatOnePodMayRequestIsWhatTheQuotaHas(t *testing.T) {
	b, err := Of(&sandbarv1alpha1.Quota{Hard: list(
		"requests.memory", "1Gi", "limits.memory", "2Gi", "cpu", "1", "requests.nvidia.com/gpu", "2", "requests.storage", "9Gi", "pods", "3",
	)})
	if err != nil {
		t.Fatal(err)
	}
	got := map[corev1.ResourceName]string{}
	for name, quantity := range b.Requests() {
		got[name] = quantity.String()
	}
	want := map[corev1.ResourceName]string{"cpu": "1", "memory": "1Gi", "ephemeral-storage": "10Gi", "nvidia.com/gpu": "2"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestContradictionsNameTheField(t *testing.T) {
	for name, tc := range map[string]struct {
		spec  sandbarv1alpha1.Quota
		field string
	}{
		"a minimum of zero":                {sandbarv1alpha1.Quota{Min: list("memory", "0")}, "min[memory]"},
		"a negative minimum":               {sandbarv1alpha1.Quota{Min: list("cpu", "-1")}, "min[cpu]"},
		"a maximum of zero":                {sandbarv1alpha1.Quota{Max: list("cpu", "0m")}, "max[cpu]"},
		"a default above the maximum":      {sandbarv1alpha1.Quota{DefaultLimit: list("cpu", "3"), Max: list("cpu", "2")}, "max[cpu]"},
		"a default below the minimum":      {sandbarv1alpha1.Quota{DefaultRequest: list("cpu", "1m"), Min: list("cpu", "2m")}, "defaultRequest[cpu]"},
		"a container above its pod":        {sandbarv1alpha1.Quota{Max: list("memory", "4Gi"), PodMax: list("memory", "2Gi")}, "podMax[memory]"},
		"no memory at all":                 {sandbarv1alpha1.Quota{Hard: list("limits.memory", "0")}, "hard[limits.memory]"},
		"a number beyond all":              {sandbarv1alpha1.Quota{PodMax: list("memory", "1e30")}, "podMax[memory]"},
		"a bound of what has none":         {sandbarv1alpha1.Quota{Max: list("nvidia.com/gpu", "1")}, "max[nvidia.com/gpu]"},
		"a negative quota":                 {sandbarv1alpha1.Quota{Hard: list("pods", "-1")}, "hard[pods]"},
		"a quota of no resource":           {sandbarv1alpha1.Quota{Hard: list("a b", "1")}, "hard[a b]"},
		"volumes of nothing":               {sandbarv1alpha1.Quota{Volume: sandbarv1alpha1.VolumeBounds{Max: quantity("0")}}, "volume.max"},
		"volumes the wrong way round":      {sandbarv1alpha1.Quota{Volume: sandbarv1alpha1.VolumeBounds{Min: quantity("2Gi"), Max: quantity("1Gi")}}, "volume.max"},
		"emptyDirs without a limit":        {sandbarv1alpha1.Quota{EmptyDir: sandbarv1alpha1.EmptyDirBounds{Default: quantity("0")}}, "emptyDir.default"},
		"emptyDirs above their maximum":    {sandbarv1alpha1.Quota{EmptyDir: sandbarv1alpha1.EmptyDirBounds{Default: quantity("9Gi")}}, "emptyDir.max"},
		"emptyDirs in memory above theirs": {sandbarv1alpha1.Quota{EmptyDir: sandbarv1alpha1.EmptyDirBounds{MemoryDefault: quantity("2Gi")}}, "emptyDir.memoryMax"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Of(&tc.spec)
			var wrong *Error
			if !errors.As(err, &wrong) || wrong.Field != "spec.quota."+tc.field {
				t.Fatalf("err = %v, want one about %s", err, tc.field)
			}
			if !strings.HasPrefix(err.Error(), "InfrastructureProvider spec.quota."+tc.field+": ") {
				t.Errorf("it says %q", err)
			}
		})
	}
}

func TestNoneOfACountIsFine(t *testing.T) {
	if _, err := Of(&sandbarv1alpha1.Quota{Hard: list("pods", "0", "services.nodeports", "0", "count/jobs.batch", "3")}); err != nil {
		t.Error(err)
	}
}
