// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/sandbar-dev/sandbar/pkg/placement"
)

var sandboxes = schema.GroupVersionResource{Group: "sandbar.dev", Version: "v1alpha1", Resource: "sandboxes"}

const toolchain = "localhost/sandbar/toolchain-node:dev"

// sampleSandbox is the spec of the sample in the documentation.
func sampleSandbox(t *testing.T) map[string]any {
	t.Helper()
	data, err := os.ReadFile("../examples/tenant/sandbox.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var obj map[string]any
	if err := yaml.Unmarshal(data, &obj); err != nil {
		t.Fatal(err)
	}
	return obj["spec"].(map[string]any)
}

// box creates a Sandbox with a spec of YAML.
func (tn *tenant) box(name, spec string) *instance {
	tn.t.Helper()
	var fields map[string]any
	if err := yaml.Unmarshal([]byte(spec), &fields); err != nil {
		tn.t.Fatal(err)
	}
	return tn.create(sandboxes, "Sandbox", name, fields)
}

func (i *instance) tryPatch(patch string) error {
	_, err := i.tn.dyn.Resource(i.gvr).Namespace("default").Patch(i.tn.t.Context(), i.name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

func (i *instance) mustPatch(patch string) {
	i.tn.t.Helper()
	if err := i.tryPatch(patch); err != nil {
		i.tn.t.Fatalf("changing %s: %v", i.name, err)
	}
}

// waitComposed waits until the condition Composed is false and tells each of the words.
func (i *instance) waitRefused(words ...string) {
	i.tn.t.Helper()
	began := time.Now()
	var said string
	eventually(i.tn.t, i.name+" says why it is not composed", func() error {
		obj, err := i.get()
		if err != nil {
			return err
		}
		c := condition(obj, "Composed")
		if c == nil || c["status"] != "False" {
			return fmt.Errorf("Composed is %v", c)
		}
		said = fmt.Sprint(c["reason"], ": ", c["message"])
		for _, word := range words {
			if !strings.Contains(said, word) {
				return fmt.Errorf("it says %q and not %q", said, word)
			}
		}
		return nil
	})
	i.tn.t.Logf("%s after %v: %s", i.name, time.Since(began).Round(100*time.Millisecond), said)
}

// pod returns the sandbox's pod, waiting for one that is not on its way out.
func (i *instance) pod() *corev1.Pod {
	i.tn.t.Helper()
	kube := kubernetes.NewForConfigOrDie(world.Stack.Runtime())
	var pod *corev1.Pod
	eventually(i.tn.t, "the pod of "+i.name, func() (err error) {
		pod, err = kube.CoreV1().Pods(i.id.Namespace()).Get(i.tn.t.Context(), "sandbox-0", metav1.GetOptions{})
		if err == nil && pod.DeletionTimestamp != nil {
			err = errors.New("it is being removed")
		}
		return err
	})
	return pod
}

// TestSandboxKeepsItsVolume: a Sandbox of a tenant's own pod template, suspended and resumed.
func TestSandboxKeepsItsVolume(t *testing.T) {
	calm(t)
	tn := newTenant(t, "alice")
	tn.waitServed(sandboxes)
	box := tn.create(sandboxes, "Sandbox", "notes", sampleSandbox(t))
	box.waitReady()
	c := callAs(t, tn.token)
	if log := c.want(200, "GET", box.base()+"/log", nil); !strings.Contains(log, "boot 1") {
		t.Errorf("the first log is %q", log)
	}
	first := box.pod()
	for _, port := range []string{"http", "3000"} {
		if got := c.want(200, "GET", box.base()+"/ports/"+port+"/proxy/", nil); got != "hello from sandbox-0\n" {
			t.Errorf("at port %s it says %q", port, got)
		}
	}

	box.mustPatch(`{"spec":{"suspended":true}}`)
	kube := kubernetes.NewForConfigOrDie(world.Stack.Runtime())
	eventually(t, "the pod goes", func() error {
		_, err := kube.CoreV1().Pods(box.id.Namespace()).Get(t.Context(), "sandbox-0", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is there: %w", err)
	})
	box.mustPatch(`{"spec":{"suspended":false}}`)
	eventually(t, "another pod is ready", func() error {
		if pod := box.pod(); pod.UID == first.UID {
			return errors.New("it is the first pod still")
		}
		obj, err := box.get()
		if err != nil {
			return err
		}
		return conditionError(obj, "Ready", metav1.ConditionTrue)
	})
	eventually(t, "the volume is the same", func() error {
		if _, log := c.do("GET", box.base()+"/log", nil); !strings.Contains(log, "boot 2") {
			return fmt.Errorf("the log is %q", log)
		}
		return nil
	})
}

// TestSandboxOfATemplate: a Template that offers a pod template, patched by the tenant, and
// followed when it changes.
func TestSandboxOfATemplate(t *testing.T) {
	changes(t)
	n := newNote(t)
	offer := func(message string) func(spec map[string]any) {
		return func(spec map[string]any) {
			spec["base"] = map[string]any{"podTemplate": map[string]any{"spec": map[string]any{
				"containers": []any{map[string]any{
					"name": "main", "image": toolchain, "command": []any{"sh", "-c", `echo "$MESSAGE and $OWN"; exec sleep 100000`},
					"env": []any{map[string]any{"name": "MESSAGE", "value": message}},
				}}, "terminationGracePeriodSeconds": int64(1),
			}}}
		}
	}
	tn := newTenant(t, "bob")
	tn.waitServed(sandboxes)
	box := tn.box("patched", `
template:
  templateRef: {name: `+n.name+`}
  patch: {spec: {containers: [{name: main, env: [{name: OWN, value: "${schema.spec.pod} $(PATH)"}]}]}}
`)
	box.waitRefused("TemplateNotUsable", n.name)
	n.edit = offer("one")
	n.apply()
	box.waitReady()
	c := callAs(t, tn.token)
	says := func(text string) {
		t.Helper()
		eventually(t, "it says "+text, func() error {
			if _, log := c.do("GET", box.base()+"/log", nil); !strings.Contains(log, text) {
				return fmt.Errorf("the log is %q", log)
			}
			return nil
		})
	}
	// Nothing of kro's is evaluated in what a tenant writes.
	says("one and ${schema.spec.pod} ")
	n.edit = offer("two")
	n.apply()
	says("two and ")

	n.edit = func(spec map[string]any) {
		offer("three")(spec)
		pod := spec["base"].(map[string]any)["podTemplate"].(map[string]any)["spec"].(map[string]any)
		pod["runtimeClassName"] = "nosuch"
	}
	n.apply()
	// What the operator cannot have, or takes away, degrades nobody who runs without it, and tenants could
	// do nothing about it: the Template of the kind says it.
	ofTheKind := *n
	ofTheKind.name = "sandbox"
	ofTheKind.wait("RolledOut", metav1.ConditionFalse, "nosuch")
	box.waitState("Ready", "Composed", "NotSuspended", "SandboxPodReady")
	n.edit = nil
	n.apply()
	ofTheKind.wait("RolledOut", metav1.ConditionTrue, "Complete")
	box.waitState("Ready", "Composed", "NotSuspended", "SandboxPodReady")
	says("two and ")
	box.mustPatch(`{"spec":{"suspended":true}}`)
	kube := kubernetes.NewForConfigOrDie(world.Stack.Runtime())
	eventually(t, "what is refused can be suspended", func() error {
		_, err := kube.CoreV1().Pods(box.id.Namespace()).Get(t.Context(), "sandbox-0", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("the pod is there: %w", err)
	})
}

// TestSandboxesThatCannotBe: each way in which a pod cannot be, told where it is written or in a
// condition within seconds.
func TestSandboxesThatCannotBe(t *testing.T) {
	calm(t)
	tn := newTenant(t, "carol")
	tn.waitServed(sandboxes)

	t.Run("refused when written", func(t *testing.T) {
		for name, row := range map[string]struct{ spec, words string }{
			"neither a template nor workloads": {`{}`, "set template to have a pod of your own, or workloads"},
			"neither of both":                  {`{template: {}}`, "exactly one of podTemplate and templateRef"},
			"both":                             {`{template: {templateRef: {name: a}, podTemplate: {spec: {containers: [{name: a}]}}}}`, "exactly one of podTemplate and templateRef"},
			"no containers":                    {`{template: {podTemplate: {spec: {}}}}`, "containers"},
			"a container without name":         {`{template: {podTemplate: {spec: {containers: [{image: a}]}}}}`, "name"},
			"host network":                     {`{template: {podTemplate: {spec: {hostNetwork: true, containers: [{name: a}]}}}}`, "hostNetwork"},
			"a service account":                {`{template: {podTemplate: {spec: {serviceAccountName: admin, containers: [{name: a}]}}}}`, "serviceAccountName"},
			"an unknown visibility":            {`{visibility: secret, template: {templateRef: {name: a}}}`, "visibility"},
			"a project as a text":              {`{projectRef: shop, template: {templateRef: {name: a}}}`, "spec.projectRef"},
			"a project without an id":          {`{projectRef: {}, template: {templateRef: {name: a}}}`, "spec.projectRef.id"},
			"an owner of no type":              {`{owner: {type: robot, id: a}, template: {templateRef: {name: a}}}`, "spec.owner.type"},
			"a tag with a space":               {`{tags: {a: "a b"}, template: {templateRef: {name: a}}}`, "spec.tags.a"},
			"a key with a space":               {`{tags: {"a b": a}, template: {templateRef: {name: a}}}`, "self.all(key, key.matches("},
			"seventeen tags":                   {`{tags: {a: a, b: a, c: a, d: a, e: a, f: a, g: a, h: a, i: a, j: a, k: a, l: a, m: a, n: a, o: a, p: a, q: a}, template: {templateRef: {name: a}}}`, "self.size() <= 16"},
			"two volumes of one name": {`{template: {templateRef: {name: a}, volumeClaimTemplates: [
				{metadata: {name: a}, spec: {resources: {requests: {storage: 1Mi}}}}, {metadata: {name: a}, spec: {resources: {requests: {storage: 1Mi}}}}]}}`, "same name"},
		} {
			var fields map[string]any
			if err := yaml.Unmarshal([]byte(row.spec), &fields); err != nil {
				t.Fatal(err)
			}
			obj := &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "sandbar.dev/v1alpha1", "kind": "Sandbox", "metadata": map[string]any{"name": "refused"}, "spec": fields,
			}}
			_, err := tn.dyn.Resource(sandboxes).Namespace("default").Create(t.Context(), obj, metav1.CreateOptions{})
			if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), row.words) {
				t.Errorf("%s: %v, want a refusal that tells %q", name, err, row.words)
			}
		}
	})

	pod := func(more string) string {
		return `{template: {podTemplate: {spec: {containers: [{name: main, image: ` + toolchain + `, command: [sleep, "100000"]}]}}, patch: ` + more + `}}`
	}
	for name, row := range map[string]struct {
		spec  string
		words []string
	}{
		"patch-unknown-field":    {pod(`{spec: {containrs: []}}`), []string{"SpecRefused", "containrs"}},
		"patch-of-another-type":  {pod(`{spec: {containers: 3}}`), []string{"SpecRefused", "patch"}},
		"patch-to-nothing":       {pod(`{spec: {$patch: replace}}`), []string{"SpecRefused", "containers"}},
		"patch-host-network":     {pod(`{spec: {hostNetwork: true}}`), []string{"SpecRefused", "hostNetwork"}},
		"host-path":              {pod(`{spec: {volumes: [{name: root, hostPath: {path: /}}]}}`), []string{"SpecRefused", "volumes[0]"}},
		"token":                  {pod(`{spec: {volumes: [{name: t, projected: {sources: [{serviceAccountToken: {path: t}}]}}]}}`), []string{"SpecRefused", "identity"}},
		"forged-uid":             {pod(`{metadata: {labels: {sandbar.dev/instance-uid: forged}}}`), []string{"SpecRefused", "sandbar.dev/instance-uid"}},
		"runtime-annotation":     {pod(`{metadata: {annotations: {io.kubernetes.cri-o.userns-mode: "auto"}}}`), []string{"SpecRefused", "io.kubernetes.cri-o.userns-mode"}},
		"another-runtime-class":  {pod(`{spec: {runtimeClassName: unconfined}}`), []string{"SpecRefused", "runtimeClassName"}},
		"privileged":             {pod(`{spec: {containers: [{name: main, securityContext: {privileged: true}}]}}`), []string{"PodRefused", "privileged"}},
		"root":                   {pod(`{spec: {securityContext: {runAsNonRoot: false}}}`), []string{"PodRefused", "runAsNonRoot"}},
		"more-than-a-quota":      {pod(`{spec: {containers: [{name: main, resources: {requests: {cpu: "5"}, limits: {cpu: "5"}}}]}}`), []string{"SpecRefused", "request 5 of cpu together", "quota"}},
		"more-than-the-quota":    {pod(`{spec: {containers: [{name: main, resources: {requests: {cpu: "400"}, limits: {cpu: "400"}}}]}}`), []string{"uota"}},
		"an-image-of-nobody":     {pod(`{spec: {containers: [{name: main, image: "localhost/nobody/nothing:1"}]}}`), []string{"ImageNotPullable"}},
		"more-than-a-node-has":   {pod(`{spec: {containers: [{name: main, resources: {requests: {cpu: "3"}, limits: {cpu: "3"}}}]}}`), []string{"NoNodeHasRoom"}},
		"mount-of-nothing":       {pod(`{spec: {containers: [{name: main, volumeMounts: [{name: none, mountPath: /x}]}]}}`), []string{"PodRefused", "none"}},
		"a-template-that-is-not": {`{template: {templateRef: {name: nosuch}}}`, []string{"TemplateNotUsable", "nosuch"}},
	} {
		t.Run(name, func(t *testing.T) {
			own := *tn
			own.t = t
			box := own.box(name, row.spec)
			box.waitRefused(row.words...)
			box.delete()
		})
	}
}

// TestSandboxStaysInItsPlacement: what a tenant writes into its template changes neither whose
// the pod is nor who it is on the runtime cluster.
func TestSandboxStaysInItsPlacement(t *testing.T) {
	calm(t)
	tn := newTenant(t, "bob")
	tn.waitServed(sandboxes)
	box := tn.box("inside", `{template: {podTemplate: {metadata: {labels: {app: web}}, spec: {containers: [{name: main, image: `+toolchain+`, command: [sh, -c, "ls -d /var/run/secrets/kubernetes.io; id -u; env; sleep 100000"]}]}}}}`)
	if err := box.tryPatch(`{"spec":{"pod":{"template":{"spec":{"hostNetwork":true}}}}}`); err != nil && !apierrors.IsInvalid(err) {
		t.Fatal(err)
	}
	obj := box.waitReady()
	if _, there, _ := unstructured.NestedMap(obj.Object, "spec", "pod"); there {
		t.Error("a tenant could write the field that the graph reads")
	}
	pod := box.pod()
	if got := pod.Labels[placement.LabelInstanceUID]; got != string(box.id.UID) || pod.Labels["app"] != "web" {
		t.Errorf("the pod's labels are %v", pod.Labels)
	}
	if pod.Spec.HostNetwork || *pod.Spec.AutomountServiceAccountToken || *pod.Spec.EnableServiceLinks {
		t.Errorf("the pod is %s", mustJSON(t, pod.Spec))
	}
	_, log := callAs(t, tn.token).do("GET", box.base()+"/log", nil)
	log = "\n" + log // both streams, and which of them comes first is chance
	if strings.Contains(log, "\n/var/run/secrets") || !strings.Contains(log, "\n1000\n") || strings.Contains(log, "SANDBOX_SERVICE") {
		t.Errorf("inside it sees %s", log)
	}
	if strings.Contains(mustJSON(t, obj.Object["status"]), "podRef") {
		t.Error("the tenant sees podRef")
	}
	box.patch(t, map[string]any{"displayName": "Inside", "projectRef": map[string]any{"id": "shop"}})
	box.waitDescribed("shop", "Inside")
	box.patch(t, map[string]any{"displayName": nil, "projectRef": nil})
	box.waitDescribed("", "")
	if now := box.pod(); now.UID != pod.UID {
		t.Error("the pod was replaced for a description")
	}
}

// waitDescribed waits until the placement's namespace says for which project it is, and what people call it.
func (i *instance) waitDescribed(project, name string) {
	i.tn.t.Helper()
	namespaces := kubernetes.NewForConfigOrDie(world.Stack.Runtime()).CoreV1().Namespaces()
	eventually(i.tn.t, "the namespace describes it as its tenant does", func() error {
		ns, err := namespaces.Get(i.tn.t.Context(), i.id.Namespace(), metav1.GetOptions{})
		if err != nil {
			return err
		}
		if ns.Labels[placement.LabelProject] != project || ns.Annotations[placement.AnnotationDisplayName] != name {
			return fmt.Errorf("labels %v, annotations %v", ns.Labels, ns.Annotations)
		}
		return nil
	})
}
