// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/sandbar-dev/sandbar/apis/builtin"
	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

var sandboxSets = builtin.Of("SandboxSet").GVR()

// set creates a SandboxSet of a spec in YAML.
func (tn *tenant) set(name, spec string) error {
	tn.t.Helper()
	fields := map[string]any{}
	if err := yaml.Unmarshal([]byte(spec), &fields); err != nil {
		tn.t.Fatal(err)
	}
	obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "sandbar.dev/v1alpha1", "kind": "SandboxSet", "spec": fields}}
	obj.SetName(name)
	_, err := tn.dyn.Resource(sandboxSets).Namespace("default").Create(tn.t.Context(), obj, metav1.CreateOptions{})
	return err
}

func (tn *tenant) mustSet(name, spec string) {
	tn.t.Helper()
	if err := tn.set(name, spec); err != nil {
		tn.t.Fatal(err)
	}
}

func (tn *tenant) patchSet(name, patch string, subresources ...string) error {
	_, err := tn.dyn.Resource(sandboxSets).Namespace("default").Patch(tn.t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, subresources...)
	return err
}

// readSet reads a set.
func (tn *tenant) readSet(name string) (*sandbarv1alpha1.SandboxSet, error) {
	obj, err := tn.dyn.Resource(sandboxSets).Namespace("default").Get(tn.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	set := &sandbarv1alpha1.SandboxSet{}
	return set, runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, set)
}

// waitSet waits until a set's status is as it should be.
func (tn *tenant) waitSet(name, what string, is func(sandbarv1alpha1.SandboxSetStatus) bool) sandbarv1alpha1.SandboxSetStatus {
	tn.t.Helper()
	var status sandbarv1alpha1.SandboxSetStatus
	eventually(tn.t, "SandboxSet "+name+" "+what, func() error {
		set, err := tn.readSet(name)
		if err != nil {
			return err
		}
		if status = set.Status; !is(status) {
			return fmt.Errorf("its status is %+v", status)
		}
		return nil
	})
	return status
}

func hasAvailable(n int32) func(sandbarv1alpha1.SandboxSetStatus) bool {
	return func(s sandbarv1alpha1.SandboxSetStatus) bool { return s.AvailableReplicas == n && s.Replicas == n }
}

// hasAgain is hasAvailable of a set out of which so many were taken. Without them it would be true of the status from
// before the last was taken: a set's status is written once a second at most.
func hasAgain(n int32, taken int64) func(sandbarv1alpha1.SandboxSetStatus) bool {
	return func(s sandbarv1alpha1.SandboxSetStatus) bool { return hasAvailable(n)(s) && s.Claimed.Total == taken }
}

// membersOf are the namespaces of the members of a set.
func (tn *tenant) membersOf(name string) []corev1.Namespace {
	tn.t.Helper()
	set, err := tn.readSet(name)
	if err != nil {
		tn.t.Fatal(err)
	}
	return namespacesWith(tn.t, map[string]string{placement.LabelSetUID: string(set.UID)})
}

func namespacesWith(t *testing.T, wanted map[string]string) []corev1.Namespace {
	t.Helper()
	list, err := kubernetes.NewForConfigOrDie(world.Stack.Runtime()).CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{
		LabelSelector: labels.SelectorFromSet(wanted).String(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// podsByUID are the pods of the members, with their namespaces.
func podsOf(t *testing.T, members []corev1.Namespace) map[types.UID]string {
	t.Helper()
	pods := map[types.UID]string{}
	for _, ns := range members {
		pod, err := kubernetes.NewForConfigOrDie(world.Stack.Runtime()).CoreV1().Pods(ns.Name).Get(t.Context(), "sandbox-0", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		pods[pod.UID] = ns.Name
	}
	return pods
}

// started waits until an instance is Ready, returns how it says that it came to be, and follows it to its
// placement.
func (i *instance) started() *sandbarv1alpha1.InstanceStart {
	i.tn.t.Helper()
	i.waitReady()
	obj, err := i.get()
	if err != nil {
		i.tn.t.Fatal(err)
	}
	start := startOf(obj)
	if start == nil {
		i.tn.t.Fatalf("%s does not say how it started: %v", i.name, obj.Object["status"])
	}
	owner := placement.Owner{Cluster: i.tn.cluster, UID: obj.GetUID()}
	placed := namespacesWith(i.tn.t, owner.Labels())
	if len(placed) != 1 {
		i.tn.t.Fatalf("%s has %d placements", i.name, len(placed))
	}
	var ok bool
	if i.id, ok = placement.IDOf(&placed[0]); !ok {
		i.tn.t.Fatalf("namespace %s is not that of a placement", placed[0].Name)
	}
	return start
}

// TestSandboxSets: a Sandbox that is created beside a set of its template takes a sandbox that is ready, and
// is a Sandbox like any other from then on; nobody reaches one that nobody has taken.
func TestSandboxSets(t *testing.T) {
	calm(t)
	tn := setTenant(t, "alice")
	c := callAs(t, tn.token)
	tn.mustTemplate("own", `{template: {spec: `+podSaying("own")+`}}`)
	tn.mustSet("warm", `{replicas: 2, templateRef: {name: own}, scaleStrategy: {maxUnavailable: 100%}}`)
	tn.waitSet("warm", "has two", hasAvailable(2))
	members := tn.membersOf("warm")
	pods := podsOf(t, members)

	t.Run("nobody reaches a member", func(t *testing.T) {
		for _, ns := range members {
			for _, name := range []string{"instance", ns.Name, ns.Labels[placement.LabelInstanceUID], "warm"} {
				path := "/dataplane/clusters/" + tn.cluster + "/namespaces/default/sandboxes/" + name + "/log"
				if code, body := c.do("GET", path, nil); code != http.StatusNotFound && code != http.StatusForbidden {
					t.Errorf("%s: %d %s", path, code, body)
				}
			}
		}
	})

	box := tn.box("web", `{template: {templateRef: {kind: SandboxTemplate, name: own}}}`)
	start := box.started()
	t.Run("a Sandbox is born warm", func(t *testing.T) {
		if start.Type != sandbarv1alpha1.StartWarm || start.Set == nil || start.Set.Name != "warm" || start.Times.Placed == nil || start.Times.Ready == nil {
			t.Errorf("it started as %+v", start)
		}
		checkSteps(t, start)
		if row := box.row(); row["Start"] != "Warm" || row["Set"] != "warm" || row["Why cold"] != nil {
			t.Errorf("kubectl get -o wide: %v", row)
		}
		t.Logf("requested %v, placed %v, ready %v", start.Times.Requested, start.Times.Placed, start.Times.Ready)
		if pods[box.pod().UID] != box.id.Namespace() {
			t.Error("its pod is none that was ready before")
		}
		if _, log := c.do("GET", box.base()+"/log", nil); !strings.Contains(log, "own none") {
			t.Errorf("its log is %q", log)
		}
		eventually(t, "it has its finalizer", func() error {
			obj, err := box.get()
			if err == nil && len(obj.GetFinalizers()) != 1 {
				err = fmt.Errorf("it has %v", obj.GetFinalizers())
			}
			return err
		})
		tn.waitSet("warm", "has two again, and counts one", func(s sandbarv1alpha1.SandboxSetStatus) bool {
			return hasAvailable(2)(s) && s.Claimed.Total == 1
		})
	})
	t.Run("it sleeps and wakes with what it had", func(t *testing.T) {
		before := box.pod().UID
		box.mustPatch(`{"spec":{"suspended":true}}`)
		eventually(t, "it is suspended", func() error {
			_, err := kubernetes.NewForConfigOrDie(world.Stack.Runtime()).CoreV1().Pods(box.id.Namespace()).Get(t.Context(), "sandbox-0", metav1.GetOptions{})
			if !apierrors.IsNotFound(err) {
				return fmt.Errorf("reading its pod: %w", err)
			}
			obj, err := box.get()
			if phase, _, _ := unstructured.NestedString(obj.Object, "status", "phase"); err == nil && phase != "Suspended" {
				err = fmt.Errorf("its phase is %q", phase)
			}
			return err
		})
		box.mustPatch(`{"spec":{"suspended":false}}`)
		box.waitReady()
		if box.pod().UID == before {
			t.Error("it was not suspended")
		}
		if again := box.started(); again.Type != sandbarv1alpha1.StartWarm || !again.Times.Placed.Equal(start.Times.Placed) || len(again.Steps) != len(start.Steps) {
			t.Errorf("it says now that it started as %+v", again)
		}
	})
	t.Run("cold, and why", func(t *testing.T) {
		for name, test := range map[string]struct{ spec, reason string }{
			"nobody-has-it": {`{template: {podTemplate: {spec: ` + podSaying("x") + `}}}`, sandbarv1alpha1.StartOwnPodTemplate},
			"not-asked":     {`{prewarm: None, template: {templateRef: {kind: SandboxTemplate, name: own}}}`, sandbarv1alpha1.StartPrewarmNone},
			"patched":       {`{template: {templateRef: {kind: SandboxTemplate, name: own}, patch: {spec: {containers: [{name: main, env: [{name: OWN, value: x}]}]}}}}`, sandbarv1alpha1.StartPatchDiffers},
		} {
			cold := tn.box(name, test.spec)
			start := cold.started()
			if start.Type != sandbarv1alpha1.StartCold || start.Reason != test.reason || start.Times.Ready == nil {
				t.Errorf("%s started as %+v", name, start)
			}
			checkSteps(t, start, sandbarv1alpha1.StepScheduled, sandbarv1alpha1.StepStarted, sandbarv1alpha1.StepPodReady)
			if row := cold.row(); row["Start"] != "Cold" || row["Why cold"] != test.reason {
				t.Errorf("kubectl get -o wide of %s: %v", name, row)
			}
		}
		tn.waitSet("warm", "has two still", hasAgain(2, 1))
	})
	t.Run("scaled, as Kubernetes does it", func(t *testing.T) {
		if err := tn.patchSet("warm", `{"spec":{"replicas":1}}`, "scale"); err != nil {
			t.Fatal(err)
		}
		tn.waitSet("warm", "has one", hasAvailable(1))
		eventually(t, "the other is gone", func() error {
			if left := tn.membersOf("warm"); len(left) != 1 {
				return fmt.Errorf("there are %d", len(left))
			}
			return nil
		})
	})
	t.Run("of another template, and those that are taken stay", func(t *testing.T) {
		before := box.pod().UID
		tn.mustTemplate("new", `{template: {spec: `+podSaying("new")+`}}`)
		old := tn.membersOf("warm")[0].Name
		if err := tn.patchSet("warm", `{"spec":{"templateRef":{"name":"new"}}}`); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the member is replaced", func() error {
			set, err := tn.readSet("warm")
			if err != nil {
				return err
			}
			if all := tn.membersOf("warm"); len(all) != 1 || all[0].Name == old || !hasAvailable(1)(set.Status) || set.Status.UpdatedReplicas != 1 {
				return fmt.Errorf("there are %d, and the status is %+v", len(all), set.Status)
			}
			return nil
		})
		if box.pod().UID != before {
			t.Error("a Sandbox's pod was replaced")
		}
		late := tn.box("late", `{template: {templateRef: {kind: SandboxTemplate, name: own}}}`)
		if start := late.started(); start.Type != sandbarv1alpha1.StartCold || start.Reason != sandbarv1alpha1.StartNoSet {
			t.Errorf("of the former template one started as %+v", start)
		}
		fresh := tn.box("fresh", `{template: {templateRef: {kind: SandboxTemplate, name: new}}}`)
		if start := fresh.started(); start.Type != sandbarv1alpha1.StartWarm {
			t.Errorf("of the new template one started as %+v", start)
		}
	})
	t.Run("whose template is made again", func(t *testing.T) {
		before := tn.waitSet("warm", "has one", hasAvailable(1))
		if err := tn.dyn.Resource(sandboxTemplates).Namespace("default").Delete(t.Context(), "new", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		tn.mustTemplate("new", `{template: {spec: `+podSaying("again")+`}}`)
		tn.waitSet("warm", "has one of it", func(s sandbarv1alpha1.SandboxSetStatus) bool {
			return hasAvailable(1)(s) && s.UpdatedReplicas == 1 && s.Revision != before.Revision
		})
		again := tn.box("again", `{template: {templateRef: {kind: SandboxTemplate, name: new}}}`)
		if start := again.started(); start.Type != sandbarv1alpha1.StartWarm {
			t.Errorf("it started as %+v", start)
		}
	})
	t.Run("gone with what it kept", func(t *testing.T) {
		tn.deleteSets("warm")
		if code, body := c.do("GET", box.base()+"/log", nil); code != http.StatusOK {
			t.Errorf("one that was taken: %d %s", code, body)
		}
	})
	t.Run("a Sandbox that goes leaves nothing", func(t *testing.T) {
		ns := box.id.Namespace()
		if err := tn.dyn.Resource(sandboxes).Namespace("default").Delete(t.Context(), box.name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "its placement is gone", func() error {
			_, err := kubernetes.NewForConfigOrDie(world.Stack.Runtime()).CoreV1().Namespaces().Get(t.Context(), ns, metav1.GetOptions{})
			if !apierrors.IsNotFound(err) {
				return fmt.Errorf("reading it: %w", err)
			}
			_, err = box.get()
			if !apierrors.IsNotFound(err) {
				return fmt.Errorf("the Sandbox: %w", err)
			}
			return nil
		})
	})
}

// readyReason is the reason of an instance's condition Ready.
func readyReason(obj *unstructured.Unstructured) string {
	conditions, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	for _, c := range conditions {
		if condition, _ := c.(map[string]any); condition["type"] == sandbarv1alpha1.InstanceReadyCondition {
			reason, _ := condition["reason"].(string)
			return reason
		}
	}
	return ""
}

func scalingIs(s sandbarv1alpha1.SandboxSetStatus, reason string) bool {
	for _, c := range s.Conditions {
		if c.Type == sandbarv1alpha1.SandboxSetScalingLimited {
			return c.Status == metav1.ConditionTrue && c.Reason == reason
		}
	}
	return false
}

func (tn *tenant) deleteBox(box *instance) {
	tn.t.Helper()
	if err := tn.dyn.Resource(sandboxes).Namespace("default").Delete(tn.t.Context(), box.name, metav1.DeleteOptions{}); err != nil {
		tn.t.Error(err)
	}
}
