// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/fixture"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/podbase"
)

// newPodWorld is a world of a kind whose tenants write a pod template.
func newPodWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.settings.Pod = &scope.PodWords{Fields: sandbarv1alpha1.PodTemplateFields{From: "template", To: "pod"}}
	w.inKCP.Object["spec"] = map[string]any{}
	w.writeSource(map[string]any{"podTemplate": podTemplateOf("a")})
	return w
}

func podTemplateOf(image string) map[string]any {
	return map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "main", "image": image}}}}
}

func (w *world) writeSource(source map[string]any) {
	w.inKCP.Object["spec"].(map[string]any)["template"] = source
}

// image is that of the pod that kro gets, and whether it is to run.
func (w *world) image() (image string, suspended bool) {
	w.t.Helper()
	spec := w.kroInstance().Object["spec"].(map[string]any)
	if _, there := spec["template"]; there {
		w.t.Error("kro gets the tenant's own field, which its kind does not have")
	}
	containers, _, _ := unstructured.NestedSlice(spec, "pod", "template", "spec", "containers")
	image, _ = containers[0].(map[string]any)["image"].(string)
	suspended, _ = spec["suspended"].(bool)
	return image, suspended
}

func (w *world) composed() string {
	status, err := outcome.ReadStatus(w.inKCP)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, c := range status.Conditions {
		if c.Type == sandbarv1alpha1.InstanceComposed {
			return c.Reason + ": " + c.Message
		}
	}
	return ""
}

// refusePods makes the API server refuse each pod as admission does.
func (w *world) refusePods(message string) {
	w.failWrites = func(verb string, obj runtime.Object) error {
		if _, isPod := obj.(*corev1.Pod); isPod && verb == "create" {
			return apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New(message))
		}
		return nil
	}
}

func TestAPodIsTriedBeforeAnythingIsMadeOfItAndNeverMade(t *testing.T) {
	w := newPodWorld(t)
	w.refusePods("violates PodSecurity")
	w.refused()
	if said := w.composed(); !strings.HasPrefix(said, outcome.ReasonPodRefused) || !strings.Contains(said, "violates PodSecurity") {
		t.Errorf("it says %q", said)
	}
	if slices.Contains(w.writes, "apply Thing") {
		t.Error("the kro instance was made")
	}
	w.failWrites = nil
	w.settle()
	if image, _ := w.image(); image != "a" {
		t.Errorf("kro gets the image %q", image)
	}
	var pods corev1.PodList
	if err := w.runtime.List(t.Context(), &pods, client.InNamespace(w.id().Namespace())); err != nil || len(pods.Items) > 0 {
		t.Errorf("there are pods: %v, %v", pods.Items, err)
	}
}

func TestARefusedPodLeavesTheFormerOneAndTheRestHolds(t *testing.T) {
	for name, source := range map[string]map[string]any{
		"what cannot be built":           {"podTemplate": podTemplateOf("b"), "patch": map[string]any{"spec": map[string]any{"hostNetwork": true}}},
		"a Template that offers nothing": {"templateRef": map[string]any{"name": "nosuch"}},
		"what the API server refuses":    {"podTemplate": podTemplateOf("b")},
	} {
		t.Run(name, func(t *testing.T) {
			w := newPodWorld(t)
			w.settle()
			w.writeSource(source)
			w.inKCP.Object["spec"].(map[string]any)["suspended"] = true
			w.refusePods("no")
			w.refused()
			if image, suspended := w.image(); image != "a" || !suspended {
				t.Errorf("kro gets image %q, suspended %v; want the former image, suspended", image, suspended)
			}
			if said := w.composed(); !strings.Contains(said, "template") {
				t.Errorf("it says %q", said)
			}
		})
	}
}

func TestAPodThatHasBeenTriedIsNotTriedAgain(t *testing.T) {
	w := newPodWorld(t)
	w.settle()
	w.refusePods("no")
	w.inKCP.Object["spec"].(map[string]any)["suspended"] = true
	w.refused()
	if slices.Contains(w.writes, "create Pod") {
		t.Error("a pod was tried to suspend it")
	}
	if _, suspended := w.image(); !suspended {
		t.Error("it is not suspended")
	}
}

// The pod that is to be replaced is in the quota still: what does not fit beside it may fit in
// its place, and that is for the StatefulSet to find out.
func TestAPodThatReplacesAnotherIsNotRefusedForItsQuota(t *testing.T) {
	const exceeded = "exceeded quota: sandbar, requested: limits.cpu=8, used: limits.cpu=8, limited: limits.cpu=8"
	w := newPodWorld(t)
	w.refusePods(exceeded)
	w.refused()
	if said := w.composed(); !strings.HasPrefix(said, outcome.ReasonQuota) {
		t.Errorf("a first pod that exceeds the quota: %q", said)
	}
	w.failWrites = nil
	w.settle()
	w.writeSource(map[string]any{"podTemplate": podTemplateOf("b")})
	w.refusePods(exceeded)
	w.refused()
	if image, _ := w.image(); image != "b" {
		t.Errorf("kro gets the image %q", image)
	}
	w.writeSource(map[string]any{"podTemplate": podTemplateOf("c")})
	w.refusePods("maximum cpu usage per Pod is 8, but limit is 9")
	w.refused()
	if image, _ := w.image(); image != "b" {
		t.Errorf("what is refused for another reason is taken: kro gets the image %q", image)
	}
}

// Before Kubernetes 1.33 an API server may drop hostUsers without a word, and root in the pod
// would be root on the node.
func TestAUserNamespaceThatIsNotGivenIsARefusal(t *testing.T) {
	w := newPodWorld(t)
	alone := podTemplateOf("a")
	alone["spec"].(map[string]any)["hostUsers"] = false
	w.writeSource(map[string]any{"podTemplate": alone})
	dropped := true
	w.failWrites = func(_ string, obj runtime.Object) error {
		if pod, isPod := obj.(*corev1.Pod); isPod && dropped {
			pod.Spec.HostUsers = nil
		}
		return nil
	}
	w.refused()
	if said := w.composed(); !strings.HasPrefix(said, outcome.ReasonPodRefused) || !strings.Contains(said, "user namespaces") {
		t.Errorf("it says %q", said)
	}
	dropped = false
	w.settle()
	if image, _ := w.image(); image != "a" {
		t.Errorf("kro gets the image %q", image)
	}
}

// An operator who upgrades must not replace every tenant's pod at once.
func TestBoundsThatComeLaterDoNotReplaceAPodThatRuns(t *testing.T) {
	size := func(w *world) any {
		volumes, _, _ := unstructured.NestedSlice(w.kroInstance().Object, "spec", "pod", "template", "spec", "volumes")
		return volumes[0].(map[string]any)["emptyDir"].(map[string]any)["sizeLimit"]
	}
	w := newPodWorld(t)
	template := podTemplateOf("a")
	template["spec"].(map[string]any)["volumes"] = []any{map[string]any{"name": "tmp", "emptyDir": map[string]any{}}}
	w.writeSource(map[string]any{"podTemplate": template})
	w.settle()
	if size(w) != "4Gi" {
		t.Fatalf("a new pod's volume has the size %v", size(w))
	}
	// The instance as an earlier Sandbar has made it.
	instance := w.kroInstance()
	volumes := []any{map[string]any{"name": "tmp", "emptyDir": map[string]any{}}}
	if err := unstructured.SetNestedSlice(instance.Object, volumes, "spec", "pod", "template", "spec", "volumes"); err != nil {
		t.Fatal(err)
	}
	if err := w.runtime.Update(t.Context(), instance); err != nil {
		t.Fatal(err)
	}
	w.settle()
	if size(w) != nil {
		t.Errorf("the pod that runs is replaced: its volume gets the size %v", size(w))
	}
	w.inKCP.Object["spec"].(map[string]any)["suspended"] = true
	w.settle()
	w.inKCP.Object["spec"].(map[string]any)["suspended"] = false
	w.settle()
	if size(w) != "4Gi" {
		t.Errorf("after its next start its volume has the size %v", size(w))
	}
}

func TestAQuotaThatContradictsItselfIsTheOperatorsToCorrect(t *testing.T) {
	w := newWorld(t)
	w.settings.Infrastructure = w.settings.Infrastructure.DeepCopy()
	w.settings.Infrastructure.Quota.Min = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("0")}
	w.settle()
	status, err := outcome.ReadStatus(w.inKCP)
	if err != nil {
		t.Fatal(err)
	}
	if c := status.Conditions[0]; c.Type != sandbarv1alpha1.InstancePlaced || c.Reason != outcome.ReasonMisconfigured ||
		!strings.HasPrefix(c.Message, "the operator has to correct the InfrastructureProvider spec.quota.min[memory]: 0 is not above zero") {
		t.Errorf("it says %+v", c)
	}
}

// One edit of the operator must not make every tenant's instance fail, and a new one says why it
// cannot be placed.
func TestALevelThatTheRuntimeClusterRefusesStopsNewPlacementsOnly(t *testing.T) {
	refuse := func(_ string, obj runtime.Object) error {
		o, ok := obj.(client.Object)
		if ok && obj.GetObjectKind().GroupVersionKind().Kind == "Namespace" && o.GetLabels()["pod-security.kubernetes.io/enforce"] != "restricted" {
			return apierrors.NewForbidden(corev1.Resource("namespaces"), "", errors.New("… (spec.isolation.podSecurity) …"))
		}
		return nil
	}
	for name, placed := range map[string]bool{"a new instance": false, "one that is placed": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if placed {
				w.settle()
			}
			w.settings.Infrastructure = w.settings.Infrastructure.DeepCopy()
			w.settings.Infrastructure.Isolation.PodSecurity = "privileged"
			w.failWrites = refuse
			err := w.reconcile()
			status, readErr := outcome.ReadStatus(w.inKCP)
			if readErr != nil {
				t.Fatal(readErr)
			}
			c := status.Conditions[0]
			if placed && (err != nil || c.Reason != outcome.ReasonPlaced) {
				t.Errorf("%v, %+v", err, c)
			}
			if !placed && (err == nil || c.Reason != outcome.ReasonMisconfigured || !strings.Contains(c.Message, "run sandbar-provider init again")) {
				t.Errorf("%v, %+v", err, c)
			}
		})
	}
}

func TestAMissingRuntimeClassIsNamed(t *testing.T) {
	w := newPodWorld(t)
	w.settings.Infrastructure = w.settings.Infrastructure.DeepCopy()
	w.settings.Infrastructure.Isolation.RuntimeClassName = "gvisor"
	w.refusePods("pod rejected")
	w.refused()
	if said := w.composed(); !strings.HasPrefix(said, outcome.ReasonRuntimeClass) || !strings.Contains(said, `"gvisor"`) {
		t.Errorf("it says %q", said)
	}
}

func TestOnlyAReadyTemplateOffersItsPod(t *testing.T) {
	template := func(name string, ready metav1.ConditionStatus, edit func(*sandbarv1alpha1.Template)) sandbarv1alpha1.Template {
		tmpl := sandbarv1alpha1.Template{ObjectMeta: metav1.ObjectMeta{Name: name}}
		tmpl.Spec.Base = &sandbarv1alpha1.PodTemplateBase{PodTemplate: runtime.RawExtension{Raw: []byte(`{"spec":{"containers":[{"name":"main","image":"of-base"}]}}`)}}
		tmpl.Status = sandbarv1alpha1.TemplateStatus{
			Kind: "A", Group: "sandbar.dev", Version: "v1alpha1", Resource: "as", SchemaName: "x",
			Conditions: []metav1.Condition{{Type: sandbarv1alpha1.TemplateReady, Status: ready}},
		}
		edit(&tmpl)
		return tmpl
	}
	now := metav1.Now()
	offers := podbase.OffersOf([]sandbarv1alpha1.Template{
		template("good", metav1.ConditionTrue, func(*sandbarv1alpha1.Template) {}),
		template("none", metav1.ConditionTrue, func(t *sandbarv1alpha1.Template) { t.Spec.Base = nil }),
		template("unready", metav1.ConditionFalse, func(*sandbarv1alpha1.Template) {}),
		template("going", metav1.ConditionTrue, func(t *sandbarv1alpha1.Template) { t.DeletionTimestamp = &now }),
	})
	for name, want := range map[string]string{"good": "", "none": "offers a pod template", "unready": "not Ready", "going": "not Ready"} {
		t.Run(name, func(t *testing.T) {
			w := newPodWorld(t)
			w.settings.Pod.Offers = offers
			w.writeSource(map[string]any{"templateRef": map[string]any{"name": name}})
			w.refused()
			if want == "" {
				if image, _ := w.image(); image != "of-base" {
					t.Errorf("the image is %q", image)
				}
				return
			}
			if said := w.composed(); !strings.HasPrefix(said, outcome.ReasonTemplateRef) || !strings.Contains(said, want) {
				t.Errorf("it says %q, want %q", said, want)
			}
		})
	}
}

func TestATenantsPodIsLabelledAsItsOwn(t *testing.T) {
	w := newPodWorld(t)
	w.settle()
	label, _, _ := unstructured.NestedString(w.kroInstance().Object, "spec", "pod", "template", "metadata", "labels", placement.LabelInstanceUID)
	if label != fixture.UID {
		t.Errorf("the pod belongs to %q", label)
	}
}

// refused reconciles a few times with an up-to-date cache; a refusal is tried each time.
func (w *world) refused() {
	w.t.Helper()
	for range 3 {
		w.writes = nil
		if err := w.reconcile(); err != nil {
			w.t.Fatal(err)
		}
	}
}

// The API server quotes the name of what it refuses; a generated one made each refusal another, and each
// status write led to the next try: 145 writes in six seconds for one object.
func TestARefusalIsTheSameEachTime(t *testing.T) {
	w := newPodWorld(t)
	names := map[string]bool{}
	w.failWrites = func(verb string, obj runtime.Object) error {
		pod, isPod := obj.(*corev1.Pod)
		if !isPod || verb != "create" {
			return nil
		}
		names[pod.Name+pod.GenerateName] = true
		return apierrors.NewForbidden(corev1.Resource("pods"), pod.Name, errors.New("exceeded quota: sandbar"))
	}
	for range 3 {
		if err := w.reconcile(); err != nil {
			t.Fatal(err)
		}
	}
	if len(names) != 1 {
		t.Errorf("tried under the names %v", names)
	}
	if got, want := w.composed(), "QuotaExceeded: the instance's quota has no room: exceeded quota: sandbar; ask for less, or ask the operator for a larger quota. It starts as soon as there is room"; got != want {
		t.Errorf("Composed says %q, want %q", got, want)
	}
	if statuses := slices.DeleteFunc(w.patches, func(p string) bool { return p != "status" }); len(statuses) != 1 {
		t.Errorf("%d status writes for one refusal", len(statuses))
	}
}

func TestWhatIsRefusedForEverIsTriedMoreAndMoreRarely(t *testing.T) {
	now := time.Now()
	for refusedFor, want := range map[time.Duration]time.Duration{
		0:                triedAgain,
		time.Second:      triedAgain,
		40 * time.Second: 40 * time.Second,
		time.Hour:        outcome.RefusedMost,
	} {
		s := fixture.NewScope()
		s = fixture.Reporting(t, s, map[string]any{"conditions": []any{map[string]any{
			"type": "Composed", "status": "False", "reason": "PodRefused", "lastTransitionTime": now.Add(-refusedFor).UTC().Format(time.RFC3339Nano),
		}}})
		got := triedLater(s, &outcome.RefusalError{Recheck: triedAgain}, now)
		if (got - want).Abs() > time.Second {
			t.Errorf("refused for %v: tried again after %v, want %v", refusedFor, got, want)
		}
	}
	if got := triedLater(fixture.NewScope(), &outcome.RefusalError{}, now); got != 0 {
		t.Errorf("what only another spec mends is tried again after %v", got)
	}
}
