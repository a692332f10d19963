// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// lateSecret is a value of a Secret: it is in the pod, and nowhere else where a test looks.
const lateSecret = "nobody-else-reads-this"

// sharesSecrets accepts the permission claim on Secrets with the label sandbar.dev/share, and on no other.
func (tn *tenant) sharesSecrets() {
	tn.t.Helper()
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"permissionClaims": []any{reviewsClaim("Accepted"), eventsClaim(), map[string]any{
		"group": "", "resource": "secrets", "verbs": []any{"get"}, "state": "Accepted",
		"selector": map[string]any{"matchLabels": map[string]any{placement.LabelShare: placement.Shared}},
	}}}})
	if err != nil {
		tn.t.Fatal(err)
	}
	if _, err := tn.dyn.Resource(apibindings).Patch(tn.t.Context(), "sandbar.dev", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		tn.t.Fatal(err)
	}
	eventually(tn.t, "kcp applies the claim", func() error {
		obj, err := tn.dyn.Resource(apibindings).Get(tn.t.Context(), "sandbar.dev", metav1.GetOptions{})
		if err != nil {
			return err
		}
		claims, _, _ := unstructured.NestedSlice(obj.Object, "status", "appliedPermissionClaims")
		if len(claims) < 3 {
			return fmt.Errorf("it has applied %v", claims)
		}
		return nil
	})
}

// secret creates a Secret of the tenant's; shared says whether it has the label.
func (tn *tenant) secret(name string, shared bool) {
	tn.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: map[string]string{"API_TOKEN": lateSecret}}
	if shared {
		secret.Labels = map[string]string{placement.LabelShare: placement.Shared}
	}
	if _, err := tn.kube.CoreV1().Secrets("default").Create(tn.t.Context(), secret, metav1.CreateOptions{}); err != nil {
		tn.t.Fatal(err)
	}
}

// prints waits until the newest line that a sandbox's command has printed at its start is this one.
func (i *instance) prints(line string) {
	i.tn.t.Helper()
	kube := kubernetes.NewForConfigOrDie(world.Stack.Runtime())
	eventually(i.tn.t, i.name+" prints "+line, func() error {
		log, err := kube.CoreV1().Pods(i.id.Namespace()).GetLogs("sandbox-0", &corev1.PodLogOptions{Container: "main"}).DoRaw(i.tn.t.Context())
		if err != nil {
			return err
		}
		newest := ""
		for said := range strings.Lines(string(log)) {
			if strings.HasPrefix(said, "began ") {
				newest = strings.TrimSpace(said)
			}
		}
		if newest != line {
			return fmt.Errorf("it has printed %q", newest)
		}
		return nil
	})
}

// tellsNoValue fails if the value of a Secret is in the Sandbox, in an event about it, or in its placement's namespace.
func (i *instance) tellsNoValue() {
	i.tn.t.Helper()
	obj, err := i.get()
	if err != nil {
		i.tn.t.Fatal(err)
	}
	events, err := i.tn.kube.CoreV1().Events("default").List(i.tn.t.Context(), metav1.ListOptions{})
	if err != nil {
		i.tn.t.Fatal(err)
	}
	kube := kubernetes.NewForConfigOrDie(world.Stack.Runtime())
	namespace, err := kube.CoreV1().Namespaces().Get(i.tn.t.Context(), i.id.Namespace(), metav1.GetOptions{})
	if err != nil {
		i.tn.t.Fatal(err)
	}
	for _, is := range []any{obj.Object, events.Items, namespace} {
		if said, err := json.Marshal(is); err != nil || strings.Contains(string(said), lateSecret) {
			i.tn.t.Errorf("a value is told, or %v: %s", err, said)
		}
	}
}

// TestASandboxGetsItsVariables: env and envFrom reach the command in a sandbox that was warm, in the same pod, and each later
// pod. Without a runtime the Sandbox starts cold, and says so. A Secret that nobody has shared is not read.
func TestASandboxGetsItsVariables(t *testing.T) {
	calm(t)
	tn := setTenant(t, "alice")
	tn.sharesSecrets()
	tn.secret("keys", true)
	tn.secret("private", false)
	const pod = `{terminationGracePeriodSeconds: 1, containers: [{name: main, image: ` + toolchain + `, workingDir: /tmp,
		command: [sh, -c, "echo began $GREETING $API_TOKEN $(pwd) $0; exec sleep 100000"], args: [arg]}]}`
	const env = `env: [{name: GREETING, value: hello}], envFrom: [{secretRef: {name: keys}}]`
	tn.mustTemplate("late", `{runtime: {type: Runner}, template: {spec: `+pod+`}}`)
	tn.mustTemplate("early", `{template: {spec: `+pod+`}}`)
	tn.mustSet("lates", `{replicas: 1, templateRef: {name: late}}`)
	tn.mustSet("early-set", `{replicas: 1, templateRef: {name: early}}`)
	tn.waitSet("lates", "has one", hasAvailable(1))
	pods := podsOf(t, tn.membersOf("lates"))

	box := tn.box("bound", `{template: {templateRef: {kind: SandboxTemplate, name: late}}, prewarm: Require, `+env+`}`)
	start := box.started()
	t.Run("in the pod that was there", func(t *testing.T) {
		had := box.pod()
		if start.Type != sandbarv1alpha1.StartWarm || pods[had.UID] != box.id.Namespace() || had.Status.ContainerStatuses[0].RestartCount != 0 {
			t.Errorf("it started as %+v; its pod %s, restarted %d times, is none of %v", start, had.UID, had.Status.ContainerStatuses[0].RestartCount, pods)
		}
		box.prints("began hello " + lateSecret + " /tmp arg")
		box.tellsNoValue()
	})
	t.Run("and in the next one", func(t *testing.T) {
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
		if now := box.pod(); pods[now.UID] != "" {
			t.Errorf("its pod %s is the former one", now.UID)
		}
		box.prints("began hello " + lateSecret + " /tmp arg")
	})
	t.Run("they do not change", func(t *testing.T) {
		for _, patch := range []string{`{"spec":{"env":[{"name":"GREETING","value":"bye"}]}}`, `{"spec":{"env":null}}`, `{"spec":{"envFrom":null}}`} {
			if err := box.tryPatch(patch); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "does not change") {
				t.Errorf("%s: %v", patch, err)
			}
		}
	})
	t.Run("without a runtime it starts cold, and says why", func(t *testing.T) {
		tn.waitSet("early-set", "has one", hasAvailable(1))
		cold := tn.box("cold", `{template: {templateRef: {kind: SandboxTemplate, name: early}}, `+env+`}`)
		if start := cold.started(); start.Type != sandbarv1alpha1.StartCold || start.Reason != sandbarv1alpha1.StartEnvNeedsColdStart {
			t.Errorf("it started as %+v", start)
		}
		cold.prints("began hello " + lateSecret + " /tmp arg")
		cold.tellsNoValue()
	})
	t.Run("not of a Secret that is not shared, until it is", func(t *testing.T) {
		tn.waitSet("lates", "has one again", hasAgain(1, 1))
		waits := tn.box("waits", `{template: {templateRef: {kind: SandboxTemplate, name: late}}, envFrom: [{secretRef: {name: private}}]}`)
		eventually(t, "it says why", func() error {
			obj, err := waits.get()
			if err != nil {
				return err
			}
			if c := condition(obj, "Ready"); c == nil || c["reason"] != "SecretsNotShared" {
				return fmt.Errorf("Ready is %v", c)
			}
			return nil
		})
		if _, err := tn.kube.CoreV1().Secrets("default").Patch(t.Context(), "private", types.MergePatchType,
			[]byte(`{"metadata":{"labels":{"`+placement.LabelShare+`":"`+placement.Shared+`"}}}`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		if start := waits.started(); start.Type != sandbarv1alpha1.StartWarm {
			t.Errorf("it started as %+v", start)
		}
		waits.prints("began " + lateSecret + " /tmp arg")
	})
	t.Run("as the example has it", func(t *testing.T) {
		const file = "../examples/tenant/sandboxset-env.yaml"
		var last *instance
		tn.apply(file, func(obj *unstructured.Unstructured) {
			if obj.GetKind() == "Sandbox" {
				tn.waitSet("agents", "has both", hasAvailable(2))
				last = &instance{tn: tn, gvr: sandboxes, name: obj.GetName()}
			}
		})
		if start := last.started(); start.Type != sandbarv1alpha1.StartWarm {
			t.Errorf("it started as %+v", start)
		}
		tn.deleteSets("agents")
	})
	tn.deleteSets("lates", "early-set")
}
