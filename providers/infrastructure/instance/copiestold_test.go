// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"encoding/hex"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/fixture"
)

// add creates objects on the runtime cluster.
func (w *world) add(objects ...client.Object) {
	w.t.Helper()
	for _, obj := range objects {
		if err := w.runtime.Create(context.Background(), obj); err != nil {
			w.t.Fatal(err)
		}
	}
}

// readyPods are pods of a component that are ready.
func (w *world) readyPods(component string, names ...string) {
	w.t.Helper()
	for _, name := range names {
		pod := fixture.PodOf(name, fixture.Running(time.Hour, true, 0))
		pod.Namespace, pod.Labels = w.id().Namespace(), map[string]string{placement.LabelComponent: component}
		w.add(&pod)
	}
}

// withMail adds a second namespace to the Baseline, with a workload whose Secret has the name of one in the first.
func (w *world) withMail() {
	w.t.Helper()
	mail := deploymentOf(w.t, "mail", strings.Replace(shopPod, "shop:1", "mail:1", 1))
	mail.Namespace = "prod-mail"
	w.add(mail, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "prod-mail", Name: "db"}})
	b := &w.settings.Clones.Baselines[0].Spec
	b.Namespaces = append(b.Namespaces, sandbarv1alpha1.BaselineNamespace{Name: "prod-mail", As: "mail"})
}

// What is refused because of what it refers to has been rendered by then, and its image was told while another one ran.
func TestAComponentThatIsRefusedTellsTheCopyThatItHas(t *testing.T) {
	w := newCopiesWorld(t)
	w.withMail()
	fromMail := func(name string) string {
		return strings.Replace(componentOf(name, "mail", ", overrides: {replicas: 1}"), "storefront", "mail", 1)
	}
	w.settle()
	w.copiesOf(fromMail("web"), fromMail("new"))
	for _, suspended := range []bool{false, true} {
		w.inKCP.Object["spec"].(map[string]any)["suspended"] = suspended
		w.settle()
		w.conditionIs("web", sandbarv1alpha1.ComponentRendered, "RenderFailed", "has a copy of another Secret db already")
		row := w.component("web")
		if row.Image != "ghcr.io/acme/shop:1" || row.Replicas == nil || *row.Replicas != 2 || row.DeploymentName != "web-web-sbx" || row.ServiceName != "web-web-svc" || len(row.ServicePorts) != 1 {
			t.Errorf("suspended: %v: it tells %+v, and not the copy that it has", suspended, row)
		}
		if row = w.component("new"); row.Image != "" || row.Replicas != nil || row.DeploymentName != "" {
			t.Errorf("suspended: %v: one that has no copy tells %+v", suspended, row)
		}
	}
}

// The pods of the copy of before were ready, and the component was said to be.
func TestACopyThatTheRuntimeClusterRefusesIsNotApplied(t *testing.T) {
	w := newCopiesWorld(t)
	w.settle()
	w.readyPods("web", "a", "b")
	refusal := `apply results contain errors: Deployment.apps "web-web-sbx" is invalid: spec.template.spec.containers[0].ports[0].name: must be no more than 15 characters`
	for _, c := range []struct {
		state, message         string
		seen                   int64 // generations later
		applied, ready, reason string
	}{
		{"ACTIVE", "", 0, "Applied", "Ready", ""},
		{"IN_PROGRESS", "waiting", 0, "Applied", "Ready", ""},
		{"ERROR", refusal, 0, "GraphFailed", "GraphFailed", "must be no more than 15 characters"},
		{"ERROR", `pods "a" is forbidden: exceeded quota: sandbar, requested: pods=1, used: pods=5, limited: pods=5`, 0, "QuotaExceeded", "QuotaExceeded", ""},
		{"ACTIVE", "", 1, "NotApplied", "NotApplied", "has not taken the copy yet"},
	} {
		generation := w.kroInstance().GetGeneration() + c.seen
		status := map[bool]string{true: "True", false: "False"}[c.state == "ACTIVE"]
		w.kroSays(map[string]any{"state": c.state, "conditions": []any{
			fixture.KroCondition("ResourcesReady", status, generation, c.message), fixture.KroCondition("Ready", status, generation, c.message),
		}})
		w.settle()
		w.conditionIs("web", sandbarv1alpha1.ComponentApplied, c.applied, c.reason)
		w.conditionIs("web", sandbarv1alpha1.ComponentReady, c.ready, c.reason)
		if got := w.component("web").Ready; got != (c.ready == "Ready") {
			t.Errorf("kro is %s, and the component is ready: %v", c.state, got)
		}
	}
}

// Nothing else tells that the operator has mended it.
func TestARefusedComponentOfASuspendedGroupIsLookedAtAgain(t *testing.T) {
	w := newCopiesWorld(t)
	w.copiesOf(componentOf("web", "frontend", ""), componentOf("late", "late", ""))
	w.inKCP.Object["spec"].(map[string]any)["suspended"] = true
	w.settle()
	w.conditionIs("late", sandbarv1alpha1.ComponentSourceResolved, "SourceNotFound", "has no Deployment late")
	result, err := w.reconciler().Reconcile(t.Context(), testRequest)
	if err != nil || result.RequeueAfter == 0 || result.RequeueAfter > time.Minute {
		t.Errorf("it is looked at again in %v: %v", result.RequeueAfter, err)
	}
	w.add(deploymentOf(t, "late", shopPod))
	w.settle()
	w.conditionIs("late", sandbarv1alpha1.ComponentSourceResolved, "Snapshot", "")
	if result, err = w.reconciler().Reconcile(t.Context(), testRequest); err != nil || result.RequeueAfter != 0 {
		t.Errorf("with nothing refused it is looked at again in %v: %v", result.RequeueAfter, err)
	}
}

// It kept every other component from being frozen.
func TestASourceThatIsTooLargeIsRefusedAlone(t *testing.T) {
	w := newCopiesWorld(t)
	noise, random := make([]byte, 600<<10), rand.NewChaCha8([32]byte{})
	_, _ = random.Read(noise)
	large := deploymentOf(t, "large", shopPod)
	large.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "NOISE", Value: hex.EncodeToString(noise)}}
	w.add(large)
	w.copiesOf(componentOf("large", "large", ""), componentOf("web", "frontend", ""))
	w.settle()
	w.wantCopies("web-web-sbx 2 ghcr.io/acme/shop:1")
	w.conditionIs("large", sandbarv1alpha1.ComponentSourceResolved, "NotCloneable", "the compressed pod template of Deployment large is ")
	w.conditionIs("web", sandbarv1alpha1.ComponentRendered, "Rendered", "")
	if got := w.composed(); !strings.HasPrefix(got, "NotCloneable: component large: ") {
		t.Errorf("Composed is %s", got)
	}
}
