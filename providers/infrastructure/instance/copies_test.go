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

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/fixture"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
)

const shopPod = `{containers: [{name: app, image: "ghcr.io/acme/shop:1", ports: [{name: http, containerPort: 8080}], envFrom: [{secretRef: {name: db}}]}]}`

// deploymentOf is a workload of the namespace prod-shop.
func deploymentOf(t *testing.T, name, pod string) *appsv1.Deployment {
	t.Helper()
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "prod-shop", Name: name}}
	text := fmt.Sprintf(`{replicas: 2, selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: a}}, spec: %s}}`, pod)
	if err := yaml.UnmarshalStrict([]byte(text), &d.Spec); err != nil {
		t.Fatal(err)
	}
	return d
}

// newCopiesWorld is a world of a kind of copies, with a Baseline of two workloads for the tenant's workspace.
func newCopiesWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, deploymentOf(t, "frontend", shopPod), deploymentOf(t, "api", shopPod),
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "prod-shop", Name: "db"}, Data: map[string][]byte{"password": []byte("x")}})
	b := sandbarv1alpha1.Baseline{ObjectMeta: metav1.ObjectMeta{Name: "shop"}, Spec: sandbarv1alpha1.BaselineSpec{
		Namespaces: []sandbarv1alpha1.BaselineNamespace{{Name: "prod-shop", As: "storefront"}},
		Workspaces: []sandbarv1alpha1.BaselineWorkspace{{Path: "root:team-a"}},
		References: sandbarv1alpha1.BaselineReferences{Secrets: sandbarv1alpha1.BaselineSharedSecrets{Policy: sandbarv1alpha1.BaselineCopy}},
	}}
	w.settings.Clones = &scope.CloneWords{
		Fields:    sandbarv1alpha1.CloneFields{From: "components", To: "render", Claims: "claims"},
		Baselines: []sandbarv1alpha1.Baseline{b},
	}
	w.copiesOf(componentOf("web", "frontend", ""))
	return w
}

// componentOf is a component of the tenant's; more are further fields of it.
func componentOf(name, source, more string) string {
	return fmt.Sprintf(`{name: %s, sourceRef: {apiVersion: apps/v1, kind: Deployment, name: %s, namespace: storefront}%s}`, name, source, more)
}

// copiesOf has the tenant write these components.
func (w *world) copiesOf(components ...string) {
	w.t.Helper()
	spec := map[string]any{}
	if err := yaml.Unmarshal([]byte("{baselineRef: {name: shop}, components: ["+strings.Join(components, ", ")+"]}"), &spec); err != nil {
		w.t.Fatal(err)
	}
	w.inKCP.Object["spec"] = spec
	w.inKCP.SetGeneration(w.inKCP.GetGeneration() + 1)
}

// copiesMade are the names, replicas and images of the copies that kro gets.
func (w *world) copiesMade() (made []string) {
	w.t.Helper()
	spec := w.kroInstance().Object["spec"].(map[string]any)
	for _, name := range []string{"components", "baselineRef"} {
		if _, there := spec[name]; there {
			w.t.Errorf("kro gets the tenant's own field %s, which its kind does not have", name)
		}
	}
	list, _, _ := unstructured.NestedSlice(spec, "render")
	for _, item := range list {
		fields := item.(map[string]any)
		replicas, _, _ := unstructured.NestedInt64(fields, "spec", "replicas")
		containers, _, _ := unstructured.NestedSlice(fields, "spec", "template", "spec", "containers")
		made = append(made, fmt.Sprintf("%s %d %s", fields["name"], replicas, containers[0].(map[string]any)["image"]))
	}
	return made
}

func (w *world) wantCopies(want ...string) {
	w.t.Helper()
	if got := w.copiesMade(); !slices.Equal(got, want) {
		w.t.Errorf("the copies are %v, want %v", got, want)
	}
}

// component is a row of the status.
func (w *world) component(name string) sandbarv1alpha1.SandboxGroupComponentStatus {
	w.t.Helper()
	var status sandbarv1alpha1.SandboxGroupStatus
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(w.inKCP.Object["status"].(map[string]any), &status); err != nil {
		w.t.Fatal(err)
	}
	for _, row := range status.Components {
		if row.Name == name {
			return row
		}
	}
	w.t.Fatalf("the status has no component %s: %+v", name, status)
	return sandbarv1alpha1.SandboxGroupComponentStatus{}
}

// conditionIs checks the reason of a condition of a component, and that its message says something.
func (w *world) conditionIs(component, condition, reason, says string) {
	w.t.Helper()
	c := meta.FindStatusCondition(w.component(component).Conditions, condition)
	if c == nil || c.Reason != reason || !strings.Contains(c.Message, says) {
		w.t.Errorf("%s of %s is %+v, want %s with %q", condition, component, c, reason, says)
	}
}

func (w *world) changeSource(name, image string) {
	w.t.Helper()
	d := &appsv1.Deployment{}
	if err := w.runtime.Get(context.Background(), client.ObjectKey{Namespace: "prod-shop", Name: name}, d); err != nil {
		w.t.Fatal(err)
	}
	d.Spec.Template.Spec.Containers[0].Image = image
	if err := w.runtime.Update(context.Background(), d); err != nil {
		w.t.Fatal(err)
	}
}

func TestAComponentIsACopyOfAWorkloadAsItWasFirst(t *testing.T) {
	w := newCopiesWorld(t)
	w.settle()
	w.wantCopies("web-web-sbx 2 ghcr.io/acme/shop:1")
	w.conditionIs("web", sandbarv1alpha1.ComponentSourceResolved, "Snapshot", "Deployment frontend is frozen")
	w.conditionIs("web", sandbarv1alpha1.ComponentRendered, "Rendered", "")
	w.conditionIs("web", sandbarv1alpha1.ComponentReady, "PodsStarting", "0 of 2 pods are ready")
	row, id := w.component("web"), w.inKCP.Object["status"].(map[string]any)["sandboxID"]
	if row.DeploymentName != "web-web-sbx" || row.ServiceName != "web-web-svc" || !slices.Equal(row.ServicePorts, []int32{8080}) ||
		row.Snapshot.Replicas != 2 || row.Snapshot.Template != nil || !strings.HasPrefix(fmt.Sprint(id), "sbx-") {
		t.Errorf("%v, %+v", id, row)
	}
	copied := &corev1.Secret{}
	if err := w.runtime.Get(t.Context(), client.ObjectKey{Namespace: w.id().Namespace(), Name: "db"}, copied); err != nil || string(copied.Data["password"]) != "x" || copied.Labels[placement.LabelInstanceUID] == "" {
		t.Errorf("its Secret is not beside it: %+v, %v", copied, err)
	}

	w.readyPods("web", "a", "b")
	w.kroSays(fixture.KroReady(w.kroInstance().GetGeneration()))
	w.settle()
	w.conditionIs("web", sandbarv1alpha1.ComponentReady, "Ready", "2 of 2 pods are ready")
	if !w.component("web").Ready {
		t.Error("it is not ready")
	}

	w.changeSource("frontend", "ghcr.io/acme/shop:2")
	w.inKCP.SetGeneration(w.inKCP.GetGeneration() + 1)
	w.settle()
	w.wantCopies("web-web-sbx 2 ghcr.io/acme/shop:1")
	if now := w.inKCP.Object["status"].(map[string]any)["sandboxID"]; now != id {
		t.Errorf("the ID was %v and is %v", id, now)
	}
	w.copiesOf(componentOf("web", "api", ""))
	w.settle()
	w.conditionIs("web", sandbarv1alpha1.ComponentSourceResolved, "Snapshot", "Deployment api is frozen")
	w.copiesOf(componentOf("web", "frontend", ""))
	w.settle()
	w.wantCopies("web-web-sbx 2 ghcr.io/acme/shop:2")
}

// While another component is refused, which is what the instance tells, too.
func TestEachComponentSaysWhyItsPodsDoNotStart(t *testing.T) {
	w := newCopiesWorld(t)
	w.copiesOf(componentOf("web", "frontend", ""), componentOf("api", "api", ""), componentOf("gone", "nothing", ""))
	w.settle()
	for name, component := range map[string]string{"a": "web", "b": "web", "c": "api"} {
		state := fixture.Running(time.Hour, true, 0)
		if name == "b" {
			state = fixture.WaitingFor("ImagePullBackOff", "not found")
		}
		pod := fixture.PodOf(name, state)
		pod.Namespace, pod.Labels = w.id().Namespace(), map[string]string{placement.LabelComponent: component}
		if err := w.runtime.Create(t.Context(), &pod); err != nil {
			t.Fatal(err)
		}
	}
	w.settle()
	w.conditionIs("web", sandbarv1alpha1.ComponentReady, "ImageNotPullable", "1 of 2 pods are ready: ")
	w.conditionIs("api", sandbarv1alpha1.ComponentReady, "PodsStarting", "1 of 2 pods are ready")
}

func TestATenantHasItsWorkloadsFrozenAgain(t *testing.T) {
	w := newCopiesWorld(t)
	w.settle()
	w.changeSource("frontend", "ghcr.io/acme/shop:2")
	asks := func(text string) {
		w.inKCP.SetAnnotations(map[string]string{sandbarv1alpha1.AnnotationResnapshot: text})
		w.settle()
	}
	asks("2026-11-28T17:00:00Z")
	w.wantCopies("web-web-sbx 2 ghcr.io/acme/shop:2")
	// Once for each time, however it is written, and not because it is taken away.
	w.changeSource("frontend", "ghcr.io/acme/shop:3")
	asks("2026-11-28T18:00:00+01:00")
	asks("")
	w.wantCopies("web-web-sbx 2 ghcr.io/acme/shop:2")
	asks("soon")
	if got := w.composed(); !strings.Contains(got, "the annotation sandbar.dev/resnapshot must be a time such as") {
		t.Errorf("Composed is %s", got)
	}
	w.wantCopies("web-web-sbx 2 ghcr.io/acme/shop:2")
	asks("2026-11-28T17:00:01Z")
	w.wantCopies("web-web-sbx 2 ghcr.io/acme/shop:3")
	// One that cannot be read is told, and leaves the copy.
	if err := w.runtime.Delete(t.Context(), &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "prod-shop", Name: "frontend"}}); err != nil {
		t.Fatal(err)
	}
	asks("2026-11-28T17:00:02Z")
	w.conditionIs("web", sandbarv1alpha1.ComponentSourceResolved, "SourceNotFound", "Baseline shop has no Deployment frontend")
	w.wantCopies("web-web-sbx 2 ghcr.io/acme/shop:3")
}

func TestASourceThatIsGoneLeavesItsCopies(t *testing.T) {
	w := newCopiesWorld(t)
	w.settle()
	if err := w.runtime.Delete(t.Context(), &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "prod-shop", Name: "frontend"}}); err != nil {
		t.Fatal(err)
	}
	w.copiesOf(componentOf("web", "frontend", `, overrides: {replicas: 1}`))
	w.settle()
	w.wantCopies("web-web-sbx 1 ghcr.io/acme/shop:1")
}

func TestWhatIsWrongWithOneComponentLeavesTheOthers(t *testing.T) {
	w := newCopiesWorld(t)
	w.copiesOf(componentOf("web", "frontend", ""), componentOf("api", "nothing", ""))
	w.settle()
	w.wantCopies("web-web-sbx 2 ghcr.io/acme/shop:1")
	w.conditionIs("api", sandbarv1alpha1.ComponentSourceResolved, "SourceNotFound", "Baseline shop has no Deployment nothing")
	if got := w.composed(); !strings.HasPrefix(got, "SourceNotFound: component api: ") {
		t.Errorf("Composed is %s", got)
	}
	// A change that is refused leaves the copy that is there, and a change of another one holds.
	w.copiesOf(componentOf("web", "frontend", `, overrides: {containers: [{name: nobody, image: "ghcr.io/acme/shop:3"}]}`), componentOf("api", "api", ""))
	w.settle()
	w.wantCopies("web-web-sbx 2 ghcr.io/acme/shop:1", "web-api-sbx 2 ghcr.io/acme/shop:1")
	w.conditionIs("web", sandbarv1alpha1.ComponentRendered, "RenderFailed", `container "nobody" is not in Deployment frontend`)
	w.copiesOf(componentOf("api", "api", ""))
	w.settle()
	w.wantCopies("web-api-sbx 2 ghcr.io/acme/shop:1")
	// None of what the spec says can be made, and nothing of what it does not say any more stays.
	w.copiesOf(componentOf("other", "nothing", ""))
	w.settle()
	w.wantCopies()
}

func TestABaselineThatIsWithdrawnLeavesCopiesAndClosesTheNetwork(t *testing.T) {
	w := newCopiesWorld(t)
	open := func() bool {
		policy := &networkingv1.NetworkPolicy{}
		if err := w.runtime.Get(t.Context(), client.ObjectKey{Namespace: w.id().Namespace(), Name: "sandbar-egress"}, policy); err != nil {
			t.Fatal(err)
		}
		return strings.Contains(policy.Spec.String(), "prod-shop")
	}
	w.settle()
	if !open() {
		t.Error("the copies do not reach the Baseline")
	}
	w.settings.Clones.Baselines[0].Spec.Workspaces[0].Path = "root:others"
	w.settle()
	w.wantCopies("web-web-sbx 2 ghcr.io/acme/shop:1")
	if got := w.composed(); !strings.HasPrefix(got, "BaselineNotFound: spec.baselineRef.name: there is no Baseline shop for this workspace") {
		t.Errorf("Composed is %s", got)
	}
	if w.component("web").Snapshot == nil {
		t.Error("the status tells nothing of the copies any more")
	}
	if open() {
		t.Error("copies of a Baseline that was withdrawn reach it still")
	}
	w.inKCP.Object["spec"].(map[string]any)["suspended"] = true
	w.inKCP.SetGeneration(w.inKCP.GetGeneration() + 1)
	w.settle()
	w.wantCopies("web-web-sbx 0 ghcr.io/acme/shop:1")
}

func TestASuspendedGroupHasNoPodsAndComesBackAsItWas(t *testing.T) {
	w := newCopiesWorld(t)
	w.settle()
	spec := w.inKCP.Object["spec"].(map[string]any)
	for _, c := range []struct {
		suspended bool
		want      string
	}{{true, "web-web-sbx 0 ghcr.io/acme/shop:1"}, {false, "web-web-sbx 2 ghcr.io/acme/shop:1"}} {
		spec["suspended"] = c.suspended
		w.inKCP.SetGeneration(w.inKCP.GetGeneration() + 1)
		w.settle()
		w.wantCopies(c.want)
	}
}

// Two controllers that both believe to lead: the ID that a tenant is told never changes.
func TestTheFirstToFreezeDecides(t *testing.T) {
	w, others := newCopiesWorld(t), (*corev1.ConfigMap)(nil)
	w.failWrites = func(verb string, obj runtime.Object) error {
		stored, isMap := obj.(*corev1.ConfigMap)
		if !isMap || verb != "create" || others != nil {
			return nil
		}
		others = stored.DeepCopy()
		others.Data["sandbox.id"] = "sbx-theother"
		return apierrors.NewAlreadyExists(corev1.Resource("configmaps"), stored.Name)
	}
	if err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	if status, _ := w.inKCP.Object["status"].(map[string]any); status["sandboxID"] != nil {
		t.Errorf("an ID is told that was not kept: %v", status["sandboxID"])
	}
	if err := w.runtime.Create(t.Context(), others); err != nil {
		t.Fatal(err)
	}
	w.settle()
	if got := w.inKCP.Object["status"].(map[string]any)["sandboxID"]; got != "sbx-theother" {
		t.Errorf("the ID is %v", got)
	}
}

// Secrets of one name from two namespaces: the second component would read the first one's.
func TestTwoObjectsOfOneNameAreNotMixedUp(t *testing.T) {
	w := newCopiesWorld(t)
	other := deploymentOf(t, "mail", shopPod)
	other.Namespace = "prod-mail"
	for _, obj := range []client.Object{other, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "prod-mail", Name: "db"}, Data: map[string][]byte{"password": []byte("y")}}} {
		if err := w.runtime.Create(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	b := &w.settings.Clones.Baselines[0].Spec
	b.Namespaces = append(b.Namespaces, sandbarv1alpha1.BaselineNamespace{Name: "prod-mail", As: "mail"})
	w.copiesOf(componentOf("web", "frontend", ""), strings.Replace(componentOf("mail", "mail", ""), "storefront", "mail", 1))
	w.settle()
	w.wantCopies("web-web-sbx 2 ghcr.io/acme/shop:1")
	w.conditionIs("mail", sandbarv1alpha1.ComponentRendered, "RenderFailed", "has a copy of another Secret db already")
}

// A namespace that somebody has deleted takes nothing, and its end is an event: no look is needed before.
func TestCopiesOfAPlacementThatIsOnItsWayOutWait(t *testing.T) {
	forbidden := apierrors.NewForbidden(corev1.Resource("secrets"), "db", errors.New("being terminated"))
	forbidden.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for _, name := range []string{placement.SnapshotsConfigMap, "db"} {
		w := newCopiesWorld(t)
		w.failWrites = func(verb string, obj runtime.Object) error {
			if made, ok := obj.(client.Object); ok && verb == "create" && made.GetName() == name {
				return forbidden
			}
			return nil
		}
		if err := w.reconcile(); err != nil {
			t.Errorf("%s: it is tried again and again: %v", name, err)
		}
	}
}

// Callers of a Sandbox are led to the pods of the group that the Namespace says is its part.
func TestAGroupThatBelongsToNoSandboxAnyMoreIsNotReachedThroughIt(t *testing.T) {
	w := newCopiesWorld(t)
	partOf := func() string { return w.namespace().Annotations[placement.AnnotationCompoundUID] }
	w.inKCP.SetAnnotations(map[string]string{placement.AnnotationCompoundUID: "the-sandbox"})
	w.inKCP.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "sandbar.dev/v1alpha1", Kind: "Sandbox", Name: "web", UID: "the-sandbox", Controller: new(true)}})
	w.settle()
	w.inKCP.SetOwnerReferences(nil)
	w.settle()
	if got := partOf(); got != "the-sandbox" {
		t.Errorf("without its controller it is the part of %q", got)
	}
	w.inKCP.SetAnnotations(nil)
	w.settle()
	if got := partOf(); got != "" {
		t.Errorf("it is the part of %q still", got)
	}
}

// The network to the Baseline, and the pod security level, follow from the path.
func TestWhileKcpDoesNotTellThePathNothingChanges(t *testing.T) {
	w := newCopiesWorld(t)
	w.settle()
	w.path, w.writes, w.patches = "", nil, nil
	if err := w.reconcile(); !errors.Is(err, errPathUnknown) {
		t.Errorf("it is not tried again: %v", err)
	}
	if len(w.writes) > 0 || len(w.patches) > 0 {
		t.Errorf("it writes %v %v", w.writes, w.patches)
	}
}

// An operator who takes a kind out of the Baseline, and puts it back, has no copy frozen again; nothing is written meanwhile.
func TestWhatIsRefusedForATimeStaysFrozen(t *testing.T) {
	w := newCopiesWorld(t)
	w.settle()
	spec := &w.settings.Clones.Baselines[0].Spec
	spec.Workloads.Kinds = []sandbarv1alpha1.BaselineWorkloadKind{sandbarv1alpha1.BaselineStatefulSet}
	w.changeSource("frontend", "ghcr.io/acme/shop:2")
	w.settle()
	w.conditionIs("web", sandbarv1alpha1.ComponentSourceResolved, "NotAllowed", "no workloads of the kind Deployment")
	spec.Workloads.Kinds = nil
	w.settle()
	w.wantCopies("web-web-sbx 2 ghcr.io/acme/shop:1")

	w.copiesOf(componentOf("web", "frontend", ""), componentOf("api", "nothing", ""))
	w.settle()
	stored := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: w.id().Namespace(), Name: placement.SnapshotsConfigMap}
	if err := w.runtime.Get(t.Context(), key, stored); err != nil {
		t.Fatal(err)
	}
	before := stored.ResourceVersion
	w.settle()
	if err := w.runtime.Get(t.Context(), key, stored); err != nil || stored.ResourceVersion != before {
		t.Errorf("what is frozen is written at each look at a component that is refused: %v", err)
	}
}

// The quota of a placement counts what is copied into it. One component that is over it is told of that, and the others go on.
func TestAReferenceOverTheQuotaIsToldOfItsComponent(t *testing.T) {
	w := newCopiesWorld(t)
	w.failWrites = func(_ string, obj runtime.Object) error {
		if secret, ok := obj.(*corev1.Secret); ok && secret.Name == "db" {
			return apierrors.NewForbidden(corev1.Resource("secrets"), "db", errors.New("exceeded quota: sandbar, requested: count/secrets=1, used: count/secrets=50, limited: count/secrets=50"))
		}
		return nil
	}
	plain := `, podTemplatePatch: [{op: remove, path: /spec/containers/0/envFrom}]`
	w.copiesOf(componentOf("web", "frontend", plain), componentOf("api", "api", ""))
	for range 3 { // each look tries it again, ever more rarely
		if err := w.reconcile(); err != nil {
			t.Fatal(err)
		}
	}
	w.wantCopies("web-web-sbx 2 ghcr.io/acme/shop:1")
	w.conditionIs("api", sandbarv1alpha1.ComponentRendered, "QuotaExceeded", "spec.containers")
	if got := w.composed(); !strings.HasPrefix(got, "QuotaExceeded: component api: ") {
		t.Errorf("Composed is %s", got)
	}
}

// What stands in the way of a change, also for long, does not keep pods running that are to be suspended.
func TestAnErrorThatLastsKeepsNoCopyFromBeingSuspended(t *testing.T) {
	w := newCopiesWorld(t)
	w.settle()
	w.wantCopies("web-web-sbx 2 ghcr.io/acme/shop:1")
	w.failWrites = func(_ string, obj runtime.Object) error {
		if config, ok := obj.(*corev1.ConfigMap); ok && config.Name == placement.SnapshotsConfigMap {
			return apierrors.NewInternalError(errors.New("the disk is full"))
		}
		return nil
	}
	w.copiesOf(componentOf("web", "api", ""))
	w.inKCP.Object["spec"].(map[string]any)["suspended"] = true
	if err := w.reconcile(); err == nil || !strings.Contains(err.Error(), "the disk is full") {
		t.Errorf("it is not tried again: %v", err)
	}
	w.wantCopies("web-web-sbx 0 ghcr.io/acme/shop:1")
	w.failWrites = nil
	w.inKCP.Object["spec"].(map[string]any)["suspended"] = false
	w.inKCP.SetGeneration(w.inKCP.GetGeneration() + 1)
	w.settle()
	w.wantCopies("web-web-sbx 2 ghcr.io/acme/shop:1")
	w.conditionIs("web", sandbarv1alpha1.ComponentSourceResolved, "Snapshot", "Deployment api is frozen")
}

func TestCopiesThatDoNotFitIntoAnObjectAreRefused(t *testing.T) {
	w := newCopiesWorld(t)
	large := `, podTemplatePatch: [{op: add, path: /spec/containers/0/args, value: [` + strings.Repeat("x", 60<<10) + `]},
		{op: copy, from: /spec/containers/0/args/0, path: /spec/containers/0/args/1}, {op: copy, from: /spec/containers/0/args/0, path: /spec/containers/0/args/2}]`
	w.copiesOf(componentOf("a", "frontend", large), componentOf("b", "frontend", large), componentOf("c", "frontend", large), componentOf("d", "frontend", large), componentOf("e", "frontend", ""))
	w.settle()
	w.wantCopies("web-a-sbx 2 ghcr.io/acme/shop:1", "web-b-sbx 2 ghcr.io/acme/shop:1", "web-c-sbx 2 ghcr.io/acme/shop:1", "web-e-sbx 2 ghcr.io/acme/shop:1")
	w.conditionIs("d", sandbarv1alpha1.ComponentRendered, "NotCloneable", "have more than 655360 bytes together with this one")
}

func TestATimeThatJSONDoesNotHaveIsRefused(t *testing.T) {
	w := newCopiesWorld(t)
	w.settle()
	w.inKCP.SetAnnotations(map[string]string{sandbarv1alpha1.AnnotationResnapshot: "9999-12-31T23:59:59-01:00"})
	w.settle()
	if got := w.composed(); !strings.Contains(got, "must be a time such as") {
		t.Errorf("Composed is %s", got)
	}
}
