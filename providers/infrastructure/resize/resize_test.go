// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package resize

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// list reads "cpu 50m memory 64Mi".
func list(words string) corev1.ResourceList {
	if words == "" {
		return nil
	}
	all, fields := corev1.ResourceList{}, strings.Fields(words)
	for i := 0; i < len(fields); i += 2 {
		all[corev1.ResourceName(fields[i])] = resource.MustParse(fields[i+1])
	}
	return all
}

func asking(requests, limits string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: list(requests), Limits: list(limits)}
}

func container(requests, limits string) corev1.Container {
	return corev1.Container{Name: "main", Resources: asking(requests, limits)}
}

var defaults = Defaults{Request: list("cpu 50m memory 128Mi ephemeral-storage 64Mi"), Limit: list("cpu 2 memory 2Gi ephemeral-storage 4Gi")}

func TestWhatARunningPodCanGetInPlace(t *testing.T) {
	restarts := container("cpu 100m memory 64Mi", "")
	restarts.ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.RestartContainer}}
	always := corev1.ContainerRestartPolicyAlways
	sidecar := corev1.Container{Name: "side", RestartPolicy: &always, Resources: asking("nvidia.com/gpu 1", "nvidia.com/gpu 1")}
	for name, test := range map[string]struct {
		from     corev1.PodSpec
		template Wish
		class    bool
		problem  string // empty: it can
	}{
		"more of both":           {from: corev1.PodSpec{Containers: []corev1.Container{container("cpu 100m memory 64Mi", "")}}, template: Wish{"main": asking("cpu 1 memory 1Gi", "")}},
		"less":                   {from: corev1.PodSpec{Containers: []corev1.Container{container("cpu 1 memory 1Gi", "")}}, template: Wish{"main": asking("cpu 100m memory 64Mi", "")}},
		"what is filled in":      {from: corev1.PodSpec{Containers: []corev1.Container{container("cpu 10m", "")}}, template: Wish{"main": asking("", "")}},
		"of a guaranteed pod":    {from: corev1.PodSpec{Containers: []corev1.Container{container("", "cpu 1 memory 1Gi")}}, template: Wish{"main": asking("", "cpu 2 memory 2Gi")}},
		"a container of its own": {from: corev1.PodSpec{Containers: []corev1.Container{container("cpu 10m", ""), {Name: "extra"}}}, template: Wish{"main": asking("", ""), "gone": asking("cpu 1", "")}},
		"no more init container": {
			from:     corev1.PodSpec{InitContainers: []corev1.Container{{Name: "init", Resources: asking("ephemeral-storage 1Gi", "")}}, Containers: []corev1.Container{container("", "")}},
			template: Wish{"init": asking("ephemeral-storage 2Gi", "")},
		},
		"another class": {
			from: corev1.PodSpec{Containers: []corev1.Container{container("cpu 100m memory 64Mi", "cpu 100m memory 64Mi")}}, template: Wish{"main": asking("cpu 100m", "cpu 1 memory 1Gi")},
			class: true, problem: "the QoS class is Guaranteed and would become Burstable",
		},
		"another disk": {
			from: corev1.PodSpec{Containers: []corev1.Container{container("ephemeral-storage 1Gi", "")}}, template: Wish{"main": asking("ephemeral-storage 2Gi", "")},
			problem: "containers main: ephemeral-storage of a running pod cannot change",
		},
		"another device of a sidecar": {
			from: corev1.PodSpec{InitContainers: []corev1.Container{sidecar}, Containers: []corev1.Container{container("", "")}}, template: Wish{"side": asking("", "")},
			problem: "containers side: nvidia.com/gpu of a running pod cannot change",
		},
		"what restarts it": {
			from: corev1.PodSpec{Containers: []corev1.Container{restarts}}, template: Wish{"main": asking("cpu 100m memory 1Gi", "")},
			problem: "containers main: resizePolicy has it restarted when its memory changes",
		},
		"what does not restart it": {from: corev1.PodSpec{Containers: []corev1.Container{restarts}}, template: Wish{"main": asking("cpu 1 memory 64Mi", "")}},
	} {
		t.Run(name, func(t *testing.T) {
			err := Possible(&test.from, test.template, defaults)
			var impossible *ImpossibleError
			if test.problem == "" {
				if err != nil {
					t.Errorf("refused: %v", err)
				}
				return
			}
			if !errors.As(err, &impossible) || impossible.Class != test.class || !strings.HasPrefix(err.Error(), test.problem) {
				t.Errorf("got %v, want %q", err, test.problem)
			}
		})
	}
	t.Run("nothing is taken away", func(t *testing.T) {
		from := corev1.PodSpec{Containers: []corev1.Container{container("cpu 1", "cpu 1")}}
		if err := Possible(&from, Wish{"main": asking("cpu 1", "")}, Defaults{}); err == nil || !strings.Contains(err.Error(), "taken away") {
			t.Errorf("got %v", err)
		}
	})
}

func TestResourcesAreCompletedAsTheAPIServerDoes(t *testing.T) {
	got := Wish{"main": asking("cpu 100m", "memory 64Mi")}.Completed(defaults)["main"]
	want := asking("cpu 100m memory 64Mi ephemeral-storage 64Mi", "cpu 2 memory 64Mi ephemeral-storage 4Gi")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestOnlyWhatDiffersIsAskedFor(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "init", Resources: asking("cpu 1", "")}, {Name: "side", RestartPolicy: &always, Resources: asking("cpu 1", "")}},
		Containers:     []corev1.Container{container("cpu 100m memory 64Mi ephemeral-storage 1Gi", "cpu 2"), {Name: "same", Resources: asking("cpu 1", "")}, {Name: "own"}},
	}}
	data, err := Patch(pod, Wish{
		"init": asking("cpu 2", ""), "side": asking("cpu 2", ""), "main": asking("cpu 1 memory 1Gi ephemeral-storage 2Gi", "cpu 2"), "same": asking("cpu 1000m", ""),
	})
	want := `{"spec":{"containers":[{"name":"main","resources":{"limits":{"cpu":"2"},"requests":{"cpu":"1","memory":"1Gi"}}}],` +
		`"initContainers":[{"name":"side","resources":{"requests":{"cpu":"2"}}}]}}`
	if err != nil || string(data) != want {
		t.Errorf("got %s, %v", data, err)
	}
	if data, err := Patch(pod, Of(pod)); data != nil || err != nil {
		t.Errorf("for what it has: %s, %v", data, err)
	}
}

func TestHowFarTheKubeletIs(t *testing.T) {
	condition := func(name corev1.PodConditionType, reason string, seen int64) corev1.PodCondition {
		return corev1.PodCondition{Type: name, Status: corev1.ConditionTrue, Reason: reason, ObservedGeneration: seen, Message: "its words"}
	}
	pending, progress := corev1.PodResizePending, corev1.PodResizeInProgress
	has := func(cpu string) []corev1.ContainerStatus {
		return []corev1.ContainerStatus{{Name: "main", Resources: new(asking("cpu "+cpu, ""))}}
	}
	for name, test := range map[string]struct {
		status corev1.PodStatus
		want   Progress
	}{
		"not seen":                                 {corev1.PodStatus{ObservedGeneration: 1}, Waits},
		"seen, and done at once":                   {corev1.PodStatus{ObservedGeneration: 2}, Done},
		"no room now":                              {corev1.PodStatus{ObservedGeneration: 2, Conditions: []corev1.PodCondition{condition(pending, "Deferred", 2)}}, Waits},
		"never room":                               {corev1.PodStatus{ObservedGeneration: 2, Conditions: []corev1.PodCondition{condition(pending, "Infeasible", 2)}}, Infeasible},
		"under way":                                {corev1.PodStatus{ObservedGeneration: 2, Conditions: []corev1.PodCondition{condition(progress, "", 2)}}, Admitted},
		"an earlier one under way, and no room":    {corev1.PodStatus{ObservedGeneration: 2, Conditions: []corev1.PodCondition{condition(progress, "", 2), condition(pending, "Deferred", 2)}}, Waits},
		"what it said of an earlier wish":          {corev1.PodStatus{ObservedGeneration: 1, Conditions: []corev1.PodCondition{condition(pending, "Infeasible", 1)}}, Waits},
		"a kubelet that does not say what it sees": {corev1.PodStatus{ContainerStatuses: has("100m")}, Waits},
		"and has applied it":                       {corev1.PodStatus{ContainerStatuses: has("1")}, Done},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Generation: 2}, Spec: corev1.PodSpec{Containers: []corev1.Container{container("cpu 1", "")}}, Status: test.status}
		if got, _ := ProgressOf(pod); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

func TestTheSumIsOfAllContainers(t *testing.T) {
	got := Wish{"a": asking("cpu 100m memory 64Mi ephemeral-storage 1Gi", "cpu 1"), "b": asking("cpu 400m", "")}.Sum()
	for _, check := range []struct {
		got  resource.Quantity
		want string
	}{{got.Requests[corev1.ResourceCPU], "500m"}, {got.Requests[corev1.ResourceMemory], "64Mi"}, {got.Limits[corev1.ResourceCPU], "1"}} {
		if check.got.String() != check.want {
			t.Errorf("%s, want %s", check.got.String(), check.want)
		}
	}
	if len(got.Requests) != 2 {
		t.Errorf("more than can be changed: %v", got.Requests)
	}
}
