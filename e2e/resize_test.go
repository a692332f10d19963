// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// podAsking is podSaying with resources, in YAML.
func podAsking(word, resources string) string {
	return strings.Replace(podSaying(word), "containers: [{", "containers: [{resources: "+resources+", ", 1)
}

// resizedPatch is a set's patch of the resources of the one container.
func resizedPatch(resources string) string {
	return `{spec: {containers: [{name: main, resources: ` + resources + `}]}}`
}

// has checks the resources of a sandbox's pod, as its spec and the kubelet say them.
func has(t *testing.T, pod *corev1.Pod, cpu, memory string) {
	t.Helper()
	asks, got := pod.Spec.Containers[0].Resources, pod.Status.ContainerStatuses[0].Resources
	if asks.Requests.Cpu().String() != cpu || asks.Limits.Memory().String() != memory {
		t.Errorf("the pod asks for %v", asks)
	}
	if got == nil || got.Requests.Cpu().String() != cpu || got.Limits.Memory().String() != memory {
		t.Errorf("the container has %v, want %s of cpu and at most %s of memory", got, cpu, memory)
	}
}

// claimsOf are the UIDs of the volumes in a namespace.
func claimsOf(t *testing.T, namespace string) (uids []string) {
	t.Helper()
	list, err := kubernetes.NewForConfigOrDie(world.Stack.Runtime()).CoreV1().PersistentVolumeClaims(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		uids = append(uids, string(list.Items[i].UID))
	}
	return uids
}

// smaller makes of the objects of the example ones that the stack can run: an image of its own that answers the probe, a
// tenth of the CPU and of the memory, and so many sandboxes.
func smaller(t *testing.T, obj *unstructured.Unstructured, replicas int64) {
	t.Helper()
	spec := obj.Object["spec"].(map[string]any)
	path := []string{"template", "spec", "containers"}
	cpu, change := "100m", map[string]any{
		"image": toolchain, "command": []any{"node", "-e", "require('http').createServer((q, r) => r.end('ok')).listen(process.env.PORT)"},
	}
	if obj.GetKind() == "SandboxSet" {
		spec["replicas"] = replicas
		path[0], cpu, change = "patch", "50m", map[string]any{}
	}
	containers, _, err := unstructured.NestedSlice(spec, path...)
	if err != nil || len(containers) != 1 {
		t.Fatalf("%s has the containers %v, %v", obj.GetKind(), containers, err)
	}
	container := containers[0].(map[string]any)
	maps.Copy(container, change)
	ask := map[string]any{"cpu": cpu, "memory": "96Mi"}
	container["resources"] = map[string]any{"requests": ask, "limits": maps.Clone(ask)}
	if err := unstructured.SetNestedSlice(spec, containers, path...); err != nil {
		t.Fatal(err)
	}
}

// TestTheSeedsPool: the objects of the proposal apply as they are, and as many sandboxes come up as they say.
func TestTheSeedsPool(t *testing.T) {
	long(t, "it starts ten sandboxes, and TestASandboxGetsTheResourcesOfItsTemplate one")
	calm(t)
	tn := setTenant(t, "alice")
	tn.applySeedsPool(func(t *testing.T, obj *unstructured.Unstructured) { smaller(t, obj, 10) })
	const name = "code-interpreter-template"
	tn.waitSet(name, "has ten", hasAvailable(10))
	if pods := podsOf(t, tn.membersOf(name)); len(pods) != 10 {
		t.Errorf("there are the pods %v", pods)
	}
	row := tn.existing(sandboxSets, name).row()
	for column, want := range map[string]any{"Template": name, "Patched": true, "Desired": int64(10), "Available": int64(10), "Failing": int64(0)} {
		if got := row[column]; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("kubectl get sbs says %s %v, want %v: %v", column, got, want, row)
		}
	}
	tn.deleteSets(name)
}

// applySeedsPool creates the objects of the proposal, each as it is in a dry run, and then as changed makes it.
func (tn *tenant) applySeedsPool(change func(*testing.T, *unstructured.Unstructured)) {
	tn.t.Helper()
	tn.apply("../examples/tenant/sandboxset-patched.yaml", func(obj *unstructured.Unstructured) {
		asItIs := obj.DeepCopy()
		gvr := map[string]schema.GroupVersionResource{"SandboxTemplate": sandboxTemplates, "SandboxSet": sandboxSets}[obj.GetKind()]
		if _, err := tn.dyn.Resource(gvr).Namespace("default").Create(tn.t.Context(), asItIs, metav1.CreateOptions{DryRun: inDryRun}); err != nil {
			tn.t.Errorf("%s as it is: %v", obj.GetKind(), err)
		}
		change(tn.t, obj)
	})
}

// hasEvent is nil if there is an event about the instance, with these words.
func (i *instance) hasEvent(reason, words string) error {
	list, err := i.tn.kube.CoreV1().Events("default").List(i.tn.t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + i.name + ",reason=" + reason})
	if err != nil {
		return err
	}
	for _, event := range list.Items {
		if strings.Contains(event.Message, words) {
			return nil
		}
	}
	return fmt.Errorf("of %d events none says %q: %v", len(list.Items), words, list.Items)
}

// TestASandboxGetsTheResourcesOfItsTemplate: one that takes a sandbox which waited with less has what its template says,
// in the same pod, without a restart. What the node cannot give follows spec.resize.
func TestASandboxGetsTheResourcesOfItsTemplate(t *testing.T) {
	calm(t)
	tn := setTenant(t, "alice")
	const full, little = `{requests: {cpu: 120m, memory: 48Mi}, limits: {cpu: 400m, memory: 96Mi}}`, `{requests: {cpu: 20m, memory: 32Mi}, limits: {cpu: 100m, memory: 64Mi}}`
	tn.mustTemplate("full", `{template: {spec: `+podAsking("full", full)+`}}`)
	tn.mustSet("little", `{replicas: 1, templateRef: {name: full}, patch: `+resizedPatch(little)+`}`)
	tn.waitSet("little", "has one", hasAvailable(1))
	pods := podsOf(t, tn.membersOf("little"))

	box := tn.box("resized", `{template: {templateRef: {kind: SandboxTemplate, name: full}}}`)
	start := box.started()
	pod := box.pod()
	t.Run("in place", func(t *testing.T) {
		if start.Type != sandbarv1alpha1.StartWarm || start.Resized == nil || start.Resized.From.Requests.Cpu().String() != "20m" || start.Resized.To.Requests.Cpu().String() != "120m" {
			t.Errorf("it started as %+v", start)
		}
		if pods[pod.UID] != box.id.Namespace() || pod.Status.ContainerStatuses[0].RestartCount != 0 {
			t.Errorf("its pod %s, restarted %d times, is none of %v", pod.UID, pod.Status.ContainerStatuses[0].RestartCount, pods)
		}
		has(t, pod, "120m", "96Mi")
		eventually(t, "an event says so", func() error {
			return box.hasEvent("Resized", "from cpu 20m (limit 100m), memory 32Mi (limit 64Mi) to cpu 120m (limit 400m), memory 48Mi (limit 96Mi)")
		})
	})
	t.Run("and so has its next pod", func(t *testing.T) {
		box.mustPatch(`{"spec":{"suspended":true}}`)
		eventually(t, "its pod is gone", func() error {
			_, err := kubernetes.NewForConfigOrDie(world.Stack.Runtime()).CoreV1().Pods(box.id.Namespace()).Get(t.Context(), "sandbox-0", metav1.GetOptions{})
			if !apierrors.IsNotFound(err) {
				return fmt.Errorf("reading its pod: %w", err)
			}
			return nil
		})
		box.mustPatch(`{"spec":{"suspended":false}}`)
		box.waitReady()
		has(t, box.pod(), "120m", "96Mi")
	})
	t.Run("of the set that has less once the other has none", func(t *testing.T) {
		tn.mustTemplate("story", `{template: {spec: `+podAsking("story", full)+`}}`)
		tn.mustSet("story-full", `{replicas: 2, templateRef: {name: story}, priority: -1}`)
		tn.mustSet("story-little", `{replicas: 1, templateRef: {name: story}, priority: 1, patch: `+resizedPatch(little)+`}`)
		tn.waitSet("story-full", "has two", hasAvailable(2))
		tn.waitSet("story-little", "has one", hasAvailable(1))
		waiting := podsOf(t, append(tn.membersOf("story-full"), tn.membersOf("story-little")...))
		if err := tn.patchSet("story-full", `{"spec":{"paused":true}}`); err != nil {
			t.Fatal(err)
		}
		tn.waitSet("story-full", "is paused", func(s sandbarv1alpha1.SandboxSetStatus) bool { return s.ObservedGeneration == 2 })
		for i, set := range []string{"story-full", "story-full", "story-little"} {
			taker := tn.box(fmt.Sprint("story-", i), `{template: {templateRef: {kind: SandboxTemplate, name: story}}}`)
			start := taker.started()
			if start.Set == nil || start.Set.Name != set || (start.Resized != nil) != (set == "story-little") {
				t.Errorf("the %d. started as %+v, want one of %s", i, start, set)
			}
			pod := taker.pod()
			has(t, pod, "120m", "96Mi")
			if waiting[pod.UID] != taker.id.Namespace() || pod.Status.ContainerStatuses[0].RestartCount != 0 {
				t.Errorf("the pod %s of the %d., restarted %d times, is none of %v", pod.UID, i, pod.Status.ContainerStatuses[0].RestartCount, waiting)
			}
		}
		tn.deleteSets("story-full", "story-little")
	})
	t.Run("not if the set, or the Sandbox, keeps what it has", func(t *testing.T) {
		tn.waitSet("little", "has one again", hasAgain(1, 1))
		keeps := tn.box("keeps", `{resize: Keep, template: {templateRef: {kind: SandboxTemplate, name: full}}}`)
		if start := keeps.started(); start.Type != sandbarv1alpha1.StartWarm || start.Resized != nil || start.Reason != "" {
			t.Errorf("it started as %+v", start)
		}
		has(t, keeps.pod(), "20m", "64Mi")
	})
	t.Run("and what no node has", func(t *testing.T) {
		const huge = `{requests: {cpu: "4", memory: 48Mi}, limits: {cpu: "8", memory: 96Mi}}`
		tn.mustTemplate("huge", `{template: {spec: `+podAsking("huge", huge)+`}}`)
		tn.mustSet("dwarf", `{replicas: 1, templateRef: {name: huge}, patch: `+resizedPatch(little)+`}`)
		tn.waitSet("dwarf", "has one", hasAvailable(1))
		taker := tn.box("takes-any", `{resize: BestEffort, template: {templateRef: {kind: SandboxTemplate, name: huge}}}`)
		if start := taker.started(); start.Type != sandbarv1alpha1.StartWarm || start.Resized != nil || start.Reason != sandbarv1alpha1.StartResizeInfeasible {
			t.Errorf("it started as %+v", start)
		}
		has(t, taker.pod(), "20m", "64Mi")
		eventually(t, "an event says so", func() error { return taker.hasEvent("ResizeInfeasible", "its node could not give it") })

		tn.waitSet("dwarf", "has one again", hasAgain(1, 1))
		all := tn.box("wants-all", `{template: {templateRef: {kind: SandboxTemplate, name: huge}}}`)
		eventually(t, "one that requires it starts cold", func() error {
			obj, err := all.get()
			if err != nil {
				return err
			}
			if reason, _, _ := unstructured.NestedString(obj.Object, "status", "start", "reason"); reason != sandbarv1alpha1.StartResizeInfeasible {
				return fmt.Errorf("it started for %q: %v", reason, obj.Object["status"])
			}
			return nil
		})
	})
	t.Run("with a volume, which stays", func(t *testing.T) {
		const writes = `command: [sh, -c, "date +%N >>/data/starts; exec sleep 100000"], volumeMounts: [{name: data, mountPath: /data}]`
		spec := strings.Replace(podAsking("disk", full), "name: main,", "name: main, "+writes+",", 1)
		spec = strings.Replace(spec, `, command: [sh, -c, "echo disk $OWN; exec sleep 100000"]`, "", 1)
		tn.mustTemplate("disk", `{volumeClaimTemplates: [{metadata: {name: data}, spec: {resources: {requests: {storage: 1Mi}}}}], template: {spec: `+spec+`}}`)
		tn.mustSet("disks", `{replicas: 1, templateRef: {name: disk}, patch: `+resizedPatch(little)+`}`)
		tn.waitSet("disks", "has one", hasAvailable(1))
		claims := claimsOf(t, tn.membersOf("disks")[0].Name)
		disk := tn.box("with-disk", `{template: {templateRef: {kind: SandboxTemplate, name: disk}}}`)
		if start := disk.started(); start.Type != sandbarv1alpha1.StartWarm || start.Resized == nil {
			t.Errorf("it started as %+v", start)
		}
		if now := claimsOf(t, disk.id.Namespace()); len(claims) != 1 || !slices.Equal(now, claims) {
			t.Errorf("it has the volumes %v, and the member had %v", now, claims)
		}
		tn.deleteSets("disks")
	})
	t.Run("as the example has it, with its numbers made smaller", func(t *testing.T) {
		tn.on(t).applySeedsPool(func(t *testing.T, obj *unstructured.Unstructured) { smaller(t, obj, 1) })
		tn.waitSet("code-interpreter-template", "has one", func(s sandbarv1alpha1.SandboxSetStatus) bool { return hasAvailable(1)(s) && s.Patched })
		pods := podsOf(t, tn.membersOf("code-interpreter-template"))
		coder := tn.box("coder", `{template: {templateRef: {kind: SandboxTemplate, name: code-interpreter-template}}}`)
		if start := coder.started(); start.Type != sandbarv1alpha1.StartWarm || start.Resized == nil {
			t.Errorf("it started as %+v", start)
		}
		pod := coder.pod()
		has(t, pod, "100m", "96Mi")
		if env := pod.Spec.Containers[0].Env; pods[pod.UID] == "" || env[len(env)-1].Value != "subset-b" && env[0].Value != "subset-b" {
			t.Errorf("its pod %s with %v is none of %v", pod.UID, env, pods)
		}
	})
	t.Run("a set that could not give them is refused", func(t *testing.T) {
		tn.mustSet("other-class", `{replicas: 1, templateRef: {name: full}, patch: `+resizedPatch(`{requests: {cpu: 20m, memory: 32Mi}, limits: {cpu: 20m, memory: 32Mi}}`)+`}`)
		tn.waitSet("other-class", "says why", func(s sandbarv1alpha1.SandboxSetStatus) bool {
			return len(s.Conditions) > 0 && s.Conditions[0].Reason == sandbarv1alpha1.SandboxSetQosClassChanges && strings.Contains(s.Conditions[0].Message, "set spec.resizeOnClaim to Keep")
		})
	})
}
