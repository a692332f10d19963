// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/controlproof"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/fixture"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/latebinding"
)

// secretValue is in no status, event or annotation that a test looks at.
const secretValue = "correct-horse-battery"

// newBoundWorld is a world with a Sandbox with variables, of a SandboxTemplate with a runtime, and one warm member.
func newBoundWorld(t *testing.T, kind string) *world {
	t.Helper()
	template := ownTemplate("mine", "uid-1", "of-mine")
	template.Spec.Template.Spec.Containers[0].Command = []string{"serve"}
	template.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "MODE", Value: "template"}}
	template.Spec.Runtime = &sandbarv1alpha1.SandboxRuntime{Type: kind}
	w := newOwnWorld(t, template)
	w.settings.Infrastructure.Images = map[string]string{"runner": "runner:1"}
	w.writeSource(fromOwn("mine"))
	w.inKCP.SetCreationTimestamp(metav1.NewTime(w.now().Truncate(time.Second)))
	w.secrets = map[string]*corev1.Secret{"keys": sharedSecret("keys", "TOKEN", secretValue)}
	w.writesSpec(`{"env": [{"name": "GREETING", "value": "hello"}], "envFrom": [{"secretRef": {"name": "keys"}}]}`)
	w.configure(testSet)
	w.changeRunner(w.makeMember(testSet).Namespace())
	w.patches, w.writes = nil, nil
	return w
}

func sharedSecret(name string, pairs ...string) *corev1.Secret {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{placement.LabelShare: placement.Shared}}, Data: map[string][]byte{}}
	for i := 0; i < len(pairs); i += 2 {
		secret.Data[pairs[i]] = []byte(pairs[i+1])
	}
	return secret
}

// writesSpec writes fields of the Sandbox's spec.
func (w *world) writesSpec(fields string) {
	w.t.Helper()
	said := map[string]any{}
	if err := json.Unmarshal([]byte(fields), &said); err != nil {
		w.t.Fatal(err)
	}
	for field, value := range said {
		_ = unstructured.SetNestedField(w.inKCP.Object, value, "spec", field)
	}
}

// changeRunner gives the pod of a member the container that its template has.
func (w *world) changeRunner(namespace string) {
	w.t.Helper()
	pod := &corev1.Pod{}
	if err := w.runtime.Get(w.t.Context(), types.NamespacedName{Namespace: namespace, Name: "sandbox-0"}, pod); err != nil {
		w.t.Fatal(err)
	}
	pod.Spec.Containers = []corev1.Container{{Name: "main", Env: []corev1.EnvVar{{Name: controlproof.PodUIDVariable}}}}
	if err := w.runtime.Update(w.t.Context(), pod); err != nil {
		w.t.Fatal(err)
	}
}

// binding is the Secret of the Sandbox's placement; nil if there is none.
func (w *world) binding() *corev1.Secret {
	w.t.Helper()
	secret := &corev1.Secret{}
	for _, name := range w.ownedNames() {
		err := w.runtime.Get(w.t.Context(), types.NamespacedName{Namespace: name, Name: placement.BindingSecret}, secret)
		if err == nil {
			return secret
		}
		if !apierrors.IsNotFound(err) {
			w.t.Fatal(err)
		}
	}
	return nil
}

func (w *world) ready() metav1.Condition {
	w.t.Helper()
	return fixture.ConditionOf(w.t, w.inKCP, sandbarv1alpha1.InstanceReadyCondition)
}

// tellsNothing fails if a value is where it may be read by those who may not read the Secret.
func (w *world) tellsNothing() {
	w.t.Helper()
	annotations := []any{w.inKCP.GetAnnotations(), w.inKCP.Object["status"], w.events}
	for _, ns := range w.namespaces() {
		annotations = append(annotations, ns)
	}
	said, err := json.Marshal(annotations)
	if err != nil {
		w.t.Fatal(err)
	}
	if strings.Contains(string(said), secretValue) {
		w.t.Errorf("a value is told: %s", said)
	}
}

// The member keeps its pod, the command in it gets the variables, and they are kept for the next pod before that.
func TestASandboxThatIsBornWarmHasItsVariables(t *testing.T) {
	w := newBoundWorld(t, sandbarv1alpha1.RuntimeRunner)
	w.mustReconcile()
	if !slices.Equal(w.writes, []string{"patch Namespace", "create Secret"}) || len(w.patches) > 0 {
		t.Errorf("before its pod has them it writes %v and %v", w.writes, w.patches)
	}
	w.deliveries.running.Wait()
	w.mustReconcile()
	if !slices.Equal(w.patches, []string{"status"}) || len(w.writes) != 2 {
		t.Errorf("in kcp %v, on the runtime cluster %v", w.patches, w.writes)
	}
	if start := w.startedAs(); start.Type != sandbarv1alpha1.StartWarm || w.ready().Status != metav1.ConditionTrue {
		t.Errorf("it started as %+v, Ready is %v", start, w.ready())
	}
	secret := w.binding()
	if secret == nil || string(secret.Data["TOKEN"]) != secretValue || string(secret.Data["GREETING"]) != "hello" || secret.Immutable == nil || !*secret.Immutable {
		t.Errorf("the next pod gets %v", secret)
	}
	if len(w.delivered) != 1 || string(w.delivered[0]["TOKEN"]) != secretValue {
		t.Errorf("its pod got %v", w.delivered)
	}
	w.settle()
	if len(w.delivered) != 1 {
		t.Errorf("its pod got them %d times", len(w.delivered))
	}
	w.tellsNothing()
}

// A look at a Sandbox that is Ready asks the API server for nothing of it: its pods have started with its variables.
func TestVariablesCostALookAtAReadySandboxNothing(t *testing.T) {
	w := newBoundWorld(t, sandbarv1alpha1.RuntimeRunner)
	w.mustReconcile()
	w.deliveries.running.Wait()
	w.settle()
	reads := w.countReads()
	w.mustReconcile()
	if slices.ContainsFunc(*reads, func(read string) bool { return strings.HasSuffix(read, placement.BindingSecret) }) || w.ready().Status != metav1.ConditionTrue {
		t.Errorf("read %v, and Ready is %v", *reads, w.ready())
	}
}

// A process that has adopted a member for a Sandbox and ends leaves it to the next one, which tells that it is Ready only
// once its pod has the variables.
func TestTheNextProcessDeliversWhatAnEarlierOneHasNot(t *testing.T) {
	for name, earlier := range map[string]func(*world){
		"before the Secret": func(w *world) {
			w.failWrites = func(verb string, _ runtime.Object) error {
				if verb == "create" {
					return errors.New("the process ends")
				}
				return nil
			}
		},
		"before its pod had them": func(w *world) { w.deliverErr = errors.New("the process ends") },
	} {
		t.Run(name, func(t *testing.T) {
			w := newBoundWorld(t, sandbarv1alpha1.RuntimeRunner)
			earlier(w)
			_ = w.reconcile()
			w.deliveries.running.Wait()
			w.failWrites, w.deliverErr, w.deliveries = nil, nil, newDeliveries()
			w.mustReconcile()
			if status := w.inKCP.Object["status"]; status != nil {
				t.Errorf("it says something before its pod has the variables: %v", status)
			}
			w.deliveries.running.Wait()
			w.mustReconcile()
			if start := w.startedAs(); start.Type != sandbarv1alpha1.StartWarm || w.ready().Status != metav1.ConditionTrue || len(w.delivered) != 1 {
				t.Errorf("it started as %+v, Ready is %v, its pod got %v", start, w.ready(), w.delivered)
			}
		})
	}
}

func TestASandboxWhosePodTakesNoVariablesSaysSo(t *testing.T) {
	w := newBoundWorld(t, sandbarv1alpha1.RuntimeRunner)
	w.deliverErr = fmt.Errorf("%w: dialing https://10.1.2.3", latebinding.ErrUnreached)
	w.mustReconcile()
	w.deliveries.running.Wait()
	w.mustReconcile()
	if ready := w.ready(); ready.Reason != outcome.ReasonEnvNotDelivered || !strings.Contains(ready.Message, "cannot be reached") || strings.Contains(ready.Message, "10.1.2.3") {
		t.Errorf("Ready is %+v", ready)
	}
	w.deliverErr = nil
	began := w.now()
	w.now = func() time.Time { return began.Add(2 * deliveryFirst) }
	w.mustReconcile()
	w.deliveries.running.Wait()
	w.mustReconcile()
	if ready := w.ready(); ready.Status != metav1.ConditionTrue {
		t.Errorf("Ready is %+v", ready)
	}
}

// Each of these takes no member, and makes nothing.
func TestASandboxWithVariablesThatCannotBe(t *testing.T) {
	for name, test := range map[string]struct {
		change        func(*world)
		reason, words string
		phase         sandbarv1alpha1.InstancePhase
	}{
		"a Secret that is not there": {
			change: func(w *world) { delete(w.secrets, "keys") }, reason: outcome.ReasonSecretsNotShared, words: `Secret "keys"`, phase: sandbarv1alpha1.InstancePending,
		},
		"a Secret that is not shared, although the binding lets the provider read it": {
			change: func(w *world) { w.secrets["keys"].Labels = nil }, reason: outcome.ReasonSecretsNotShared, words: "sandbar.dev/share=true", phase: sandbarv1alpha1.InstancePending,
		},
		"a Secret with another word for shared": {
			change: func(w *world) { w.secrets["keys"].Labels[placement.LabelShare] = "false" }, reason: outcome.ReasonSecretsNotShared, words: `Secret "keys"`, phase: sandbarv1alpha1.InstancePending,
		},
		"a key of a Secret that cannot be a name": {
			change: func(w *world) { w.secrets["keys"] = sharedSecret("keys", "tls.crt", secretValue) }, reason: outcome.ReasonEnvRefused, words: `"tls.crt"`, phase: sandbarv1alpha1.InstancePending,
		},
		"a variable of the runner's": {
			change: func(w *world) {
				w.writesSpec(`{"env": [{"name": "SANDBAR_CONTROL_TOKEN_FILE", "value": "/tmp/mine"}]}`)
			},
			reason: outcome.ReasonEnvRefused, words: "SANDBAR_CONTROL_TOKEN_FILE is not a tenant's to set: leave it out", phase: sandbarv1alpha1.InstanceFailed,
		},
		"the port": {
			change: func(w *world) { w.writesSpec(`{"env": [{"name": "PORT", "value": "3000"}]}`) },
			reason: outcome.ReasonEnvRefused, words: "PORT is not a tenant's to set: leave it out", phase: sandbarv1alpha1.InstanceFailed,
		},
		"a variable that the template sets": {
			change: func(w *world) { w.writesSpec(`{"env": [{"name": "MODE", "value": "mine"}]}`) },
			reason: outcome.ReasonEnvRefused, words: "MODE is set by the template", phase: sandbarv1alpha1.InstanceFailed,
		},
		"too much": {
			change: func(w *world) {
				w.writesSpec(`{"env": [{"name": "A", "value": "` + strings.Repeat("a", 32<<10) + `"}, {"name": "B", "value": "` + strings.Repeat("b", 32<<10) + `"}]}`)
			},
			reason: outcome.ReasonEnvRefused, words: "65536", phase: sandbarv1alpha1.InstanceFailed,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newBoundWorld(t, sandbarv1alpha1.RuntimeRunner)
			test.change(w)
			w.mustReconcile()
			phase, _, _ := unstructured.NestedString(w.inKCP.Object, "status", "phase")
			if ready := w.ready(); ready.Reason != test.reason || !strings.Contains(ready.Message, test.words) || phase != string(test.phase) {
				t.Errorf("Ready is %+v, the phase %s", ready, phase)
			}
			if len(w.writes) > 0 || len(w.memberNames()) != 1 || len(w.ownedNames()) > 0 {
				t.Errorf("it writes %v and has %v", w.writes, w.ownedNames())
			}
			w.patches = nil
			w.mustReconcile()
			if len(w.patches) > 0 || len(w.writes) > 0 {
				t.Errorf("at rest it writes %v and %v", w.patches, w.writes)
			}
			w.tellsNothing()
			wanted := test.reason
			if test.phase == sandbarv1alpha1.InstanceFailed {
				wanted = string(test.phase)
			} else if wanted == outcome.ReasonEnvRefused {
				return // it waits for another Secret, and its status says so
			}
			if len(w.events) != 1 || w.events[0].Reason != wanted || w.events[0].Type != corev1.EventTypeWarning || !strings.Contains(w.events[0].Message, test.words) {
				t.Errorf("the events are %+v", w.events)
			}
		})
	}
}

// Once its Secret is shared it starts, warm.
func TestASandboxStartsWhenItsSecretIsShared(t *testing.T) {
	w := newBoundWorld(t, sandbarv1alpha1.RuntimeRunner)
	kept := w.secrets["keys"]
	delete(w.secrets, "keys")
	w.mustReconcile()
	w.secrets["keys"] = kept
	w.mustReconcile()
	w.deliveries.running.Wait()
	w.mustReconcile()
	if start := w.startedAs(); start.Type != sandbarv1alpha1.StartWarm || w.ready().Status != metav1.ConditionTrue {
		t.Errorf("it started as %+v, Ready is %v", start, w.ready())
	}
}

// Nothing reaches a pod that runs without a runtime: the Sandbox starts cold, and says why, or not at all.
func TestASandboxWithVariablesAndWithoutARuntime(t *testing.T) {
	w := newBoundWorld(t, sandbarv1alpha1.RuntimeNone)
	w.settle()
	if start := w.startedAs(); start.Type != sandbarv1alpha1.StartCold || start.Reason != sandbarv1alpha1.StartEnvNeedsColdStart {
		t.Errorf("it started as %+v", start)
	}
	if secret := w.binding(); secret == nil || string(secret.Data["TOKEN"]) != secretValue {
		t.Errorf("its pod gets %v", secret)
	}
	containers, _, _ := unstructured.NestedSlice(w.kroInstance().Object, "spec", "pod", "template", "spec", "containers")
	from, _, _ := unstructured.NestedSlice(containers[0].(map[string]any), "envFrom")
	if len(from) != 1 || from[0].(map[string]any)["secretRef"].(map[string]any)["name"] != placement.BindingSecret {
		t.Errorf("its pod takes its variables from %v", from)
	}
	if len(w.delivered) > 0 || len(w.memberNames()) != 1 {
		t.Errorf("a pod got %v; members %v", w.delivered, w.memberNames())
	}
	w.tellsNothing()

	w = newBoundWorld(t, sandbarv1alpha1.RuntimeNone)
	w.writesSpec(`{"prewarm": "Require"}`)
	w.mustReconcile()
	if ready := w.ready(); ready.Reason != outcome.ReasonWarmImpossible || !strings.Contains(ready.Message, "spec.runtime") {
		t.Errorf("Ready is %+v", ready)
	}
}

// Two Sandboxes cannot have one pod's variables: what a member gets, it gets with its owner.
func TestAMemberHasNoVariablesBeforeItHasAnOwner(t *testing.T) {
	w := newBoundWorld(t, sandbarv1alpha1.RuntimeRunner)
	w.failWrites = func(verb string, _ runtime.Object) error {
		if verb == "patch" {
			return apierrors.NewConflict(corev1.Resource("namespaces"), "sb-x", errors.New("somebody else was faster"))
		}
		return nil
	}
	_ = w.reconcile()
	w.deliveries.running.Wait()
	if len(w.delivered) > 0 || slices.Contains(w.writes, "create Secret") && w.binding() == nil {
		t.Errorf("a pod got %v, and %v was written", w.delivered, w.writes)
	}
	for _, name := range w.memberNames() {
		err := w.runtime.Get(t.Context(), types.NamespacedName{Namespace: name, Name: placement.BindingSecret}, &corev1.Secret{})
		if !apierrors.IsNotFound(err) {
			t.Errorf("the member %s has variables: %v", name, err)
		}
	}
}

func TestNoWorkspaceHoldsUpTheDeliveriesOfAnother(t *testing.T) {
	d := newDeliveries()
	for range deliveriesOfOne {
		if _, err := d.enter(t.Context(), "greedy"); err != nil {
			t.Fatal(err)
		}
	}
	leave, err := d.enter(t.Context(), "other")
	if err != nil {
		t.Fatal(err)
	}
	leave()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.enter(ctx, "greedy"); err == nil {
		t.Errorf("one workspace has more than %d", deliveriesOfOne)
	}
}
