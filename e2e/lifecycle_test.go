// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// replicatedTemplate is noteTemplate with replicas.
const replicatedTemplate = templateHead + `
      spec:
        text: string | default="a note"
        replicas: integer | default=3
        suspended: boolean | default=false
      status:
        written: ${note.data.replicas}
    resources:
    - id: note
      template:
        apiVersion: v1
        kind: ConfigMap
        metadata:
          name: note
          labels: {sandbar.dev/instance-uid: '${schema.metadata.labels["sandbar.dev/instance-uid"]}'}
        data: {replicas: '${string(schema.spec.replicas)}'}
  dataPlane:
    endpoints:
      status: {from: instanceStatus}
`

// TestTimersAreEnforced is the lifecycle by the real clock, in its shortest times: an instance
// sleeps a minute after its last use, one is deleted then, others at their shutdown times, and
// one that is renewed goes on; all of it while the provider is killed once.
func TestTimersAreEnforced(t *testing.T) {
	long(t, "it waits for real timers of minutes")
	breaks(t)
	writeUseEverySecond(t)
	n := newNote(t) // before the workspace: what is made first goes last
	n.text = replicatedTemplate
	n.apply()
	n.wait("Ready", metav1.ConditionTrue)
	tn := newTenant(t, "alice")
	tn.waitServed(n.gvr)

	c := callAs(t, tn.token)
	sleeper, neighbour := tn.sleeper("sleeper"), tn.sleeper("neighbour")
	for _, box := range []*instance{sleeper, neighbour} {
		box.waitReady()
		box.deploy(c, "hello from "+box.name)
	}
	before := placedAs(t, sleeper)

	lives := func(name string, lifecycle map[string]any) *instance {
		return tn.create(n.gvr, n.kind, name, map[string]any{"lifecycle": lifecycle})
	}
	soon := time.Now().Add(20 * time.Second).UTC().Format(time.RFC3339)
	renewed := lives("renewed", map[string]any{"shutdownTime": soon, "shutdownPolicy": "Delete"})
	renewed.patch(t, map[string]any{"lifecycle": map[string]any{"shutdownTime": time.Now().Add(time.Hour).UTC().Format(time.RFC3339)}})
	unused := lives("unused", map[string]any{"deleteAfterUnused": "1m"})
	expiring := lives("expiring", map[string]any{"shutdownTime": soon, "shutdownPolicy": "Delete"})
	retained := lives("retained", map[string]any{"shutdownTime": soon, "deleteAfterUnused": "1m"})
	suspended := lives("suspended", map[string]any{"shutdownTime": soon, "shutdownPolicy": "Suspend", "deleteAfterUnused": "1m"})
	shrinking := lives("shrinking", map[string]any{"sleepAfterUnused": "1m", "minReplicas": int64(1)})

	stopCalling := keepUsing(t, c, neighbour)
	waitDeleted(t, expiring)
	retained.waitCause(t, "Expired")
	suspended.waitCause(t, "Expired")
	// The sleeper was used long enough ago that a provider which forgot it would not wait for
	// the whole minute, and the neighbour a second ago.
	stopCalling()
	if err := world.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := world.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	c = callAs(t, tn.token)
	neighbour.wantNoCause(t)
	stopCalling = keepUsing(t, c, neighbour)
	defer stopCalling()

	waitDeleted(t, unused)
	waitDeleted(t, suspended)
	sleeper.waitCause(t, "Unused")
	eventually(t, "the pods and their quota are released", func() error { return released(t, sleeper) })
	eventually(t, "the unused instance shrinks", func() error { return shrinking.written(t, "1") })
	neighbour.wantNoCause(t)
	retained.waitCause(t, "Expired")
	renewed.wantNoCause(t)

	// A change of the spec is use: it wakes the sleeper without the data plane's help.
	sleeper.patch(t, map[string]any{"lifecycle": map[string]any{"sleepAfterUnused": "2m"}})
	sleeper.waitCause(t, "")
	sleeper.waitReady()
	sleeper.waitAnswer(c, "hello from sleeper")
	if after := placedAs(t, sleeper); after != before {
		t.Errorf("identity and volume are %+v after the sleep, were %+v", after, before)
	}
	shrinking.patch(t, map[string]any{"text": "another"})
	eventually(t, "the instance grows when it is used", func() error { return shrinking.written(t, "3") })
}

// writeUseEverySecond makes the data plane write down use each second, so that a test need not
// wait for a minute more. It is undone when the test ends.
func writeUseEverySecond(t *testing.T) {
	t.Helper()
	resource := schema.GroupVersionResource{Group: "sandbar.dev", Version: "v1alpha1", Resource: "infrastructureproviders"}
	providers := dynamic.NewForConfigOrDie(world.Stack.KCPAdmin(world.Workspace)).Resource(resource)
	set := func(ctx context.Context, seconds string) {
		patch := []byte(`{"spec":{"limits":{"activityIntervalSeconds":` + seconds + `}}}`)
		if _, err := providers.Patch(ctx, "default", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Errorf("setting the interval: %v", err)
		}
	}
	set(t.Context(), "1")
	t.Cleanup(func() { set(context.Background(), "null") })
}

// sleeper is a runner that sleeps after a minute.
func (tn *tenant) sleeper(name string) *instance {
	tn.t.Helper()
	return tn.create(runners, "SandboxRunner", name, map[string]any{
		"projectRef": "e2e", "startCommand": "exec node server.mjs", "lifecycle": map[string]any{"sleepAfterUnused": "1m"},
	})
}

// keepUsing calls an instance each second until the answer is called, which waits.
func keepUsing(t *testing.T, c *caller, box *instance) func() {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				_, err := c.probe(ctx, box.base()+"/proxy/")
				if err != nil && ctx.Err() == nil {
					t.Errorf("using %s: %v", box.name, err)
				}
			}
		}
	}()
	return func() { cancel(); <-done }
}

// kro returns what stands for the instance on the runtime cluster.
func (i *instance) kro(t *testing.T) (*unstructured.Unstructured, error) {
	client := dynamic.NewForConfigOrDie(world.Stack.Runtime()).Resource(i.gvr).Namespace(i.id.Namespace())
	return client.Get(t.Context(), i.name, metav1.GetOptions{})
}

// cause is why the kro instance is suspended; "" when it is not.
func (i *instance) cause(t *testing.T) (string, error) {
	obj, err := i.kro(t)
	if err != nil {
		return "", err
	}
	cause := obj.GetAnnotations()[placement.AnnotationSuspension]
	if is, _, _ := unstructured.NestedBool(obj.Object, "spec", "suspended"); is != (cause != "") {
		return "", fmt.Errorf("spec.suspended is %v and the cause %q", is, cause)
	}
	return cause, nil
}

func (i *instance) waitCause(t *testing.T, want string) {
	t.Helper()
	eventually(t, fmt.Sprintf("%s is suspended because of %q", i.name, want), func() error {
		got, err := i.cause(t)
		if err == nil && got != want {
			err = fmt.Errorf("the cause is %q", got)
		}
		return err
	})
}

func (i *instance) wantNoCause(t *testing.T) {
	t.Helper()
	if cause, err := i.cause(t); err != nil || cause != "" {
		t.Errorf("%s is suspended because of %q: %v", i.name, cause, err)
	}
}

// written tells whether the note has been written with so many replicas.
func (i *instance) written(t *testing.T, replicas string) error {
	kube := kubernetes.NewForConfigOrDie(world.Stack.Runtime())
	note, err := kube.CoreV1().ConfigMaps(i.id.Namespace()).Get(t.Context(), "note", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if got := note.Data["replicas"]; got != replicas {
		return fmt.Errorf("it has %s replicas", got)
	}
	return nil
}

func waitDeleted(t *testing.T, i *instance) {
	t.Helper()
	eventually(t, i.name+" is deleted", func() error {
		if _, err := i.get(); !export.IsGone(err) {
			return fmt.Errorf("it is still there: %w", errors.Join(err))
		}
		return nil
	})
	waitGone(t, i.id)
}

// identity is what must outlive a suspension.
type identity struct {
	volume types.UID
	token  string
	url    string
}

func placedAs(t *testing.T, i *instance) identity {
	t.Helper()
	kube := kubernetes.NewForConfigOrDie(world.Stack.Runtime())
	claims, err := kube.CoreV1().PersistentVolumeClaims(i.id.Namespace()).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(claims.Items) != 1 {
		t.Fatalf("claims of %s: %v, error %v", i.name, claims, err)
	}
	secret, err := kube.CoreV1().Secrets(i.id.Namespace()).Get(t.Context(), placement.ControlSecret, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	obj, err := i.get()
	if err != nil {
		t.Fatal(err)
	}
	url, _, _ := unstructured.NestedString(obj.Object, "status", "dataPlane", "url")
	return identity{claims.Items[0].UID, string(secret.Data[placement.ControlTokenKey]), url}
}

// released is nil when an instance has no pods and its quota counts none.
func released(t *testing.T, i *instance) error {
	kube := kubernetes.NewForConfigOrDie(world.Stack.Runtime())
	pods, err := kube.CoreV1().Pods(i.id.Namespace()).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		return err
	}
	quotas, err := kube.CoreV1().ResourceQuotas(i.id.Namespace()).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		return err
	}
	if len(pods.Items) > 0 || len(quotas.Items) == 0 {
		return fmt.Errorf("%d pods, %d quotas", len(pods.Items), len(quotas.Items))
	}
	for _, quota := range quotas.Items {
		for _, name := range []corev1.ResourceName{corev1.ResourcePods, corev1.ResourceLimitsMemory, corev1.ResourceLimitsCPU} {
			if used, ok := quota.Status.Used[name]; ok && !used.IsZero() {
				return fmt.Errorf("the quota counts %s of %s", used.String(), name)
			}
		}
	}
	return nil
}

// A lifecycle that cannot be is refused by kcp itself, where it is written.
func TestALifecycleThatCannotBeIsRefused(t *testing.T) {
	calm(t)
	tn := newTenant(t, "alice")
	for name, lifecycle := range map[string]map[string]any{
		"must be at least 1m": {"sleepAfterUnused": "10s"},
		"deleteAfterUnused must be longer than sleepAfterUnused": {"sleepAfterUnused": "2h", "deleteAfterUnused": "1h"},
		"this kind has no spec.replicas":                         {"minReplicas": int64(1)},
		"Unsupported value":                                      {"shutdownPolicy": "Never"},
	} {
		obj := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": runners.GroupVersion().String(), "kind": "SandboxRunner",
			"metadata": map[string]any{"name": "refused"},
			"spec":     map[string]any{"projectRef": "e2e", "lifecycle": lifecycle},
		}}
		_, err := tn.dyn.Resource(runners).Namespace("default").Create(t.Context(), obj, metav1.CreateOptions{})
		var status apierrors.APIStatus
		if !errors.As(err, &status) || status.Status().Code != http.StatusUnprocessableEntity {
			t.Errorf("%v is answered %v", lifecycle, err)
			continue
		}
		if causes := status.Status().Message; !strings.Contains(causes, name) {
			t.Errorf("%v is refused with %q, which lacks %q", lifecycle, causes, name)
		}
	}
}
