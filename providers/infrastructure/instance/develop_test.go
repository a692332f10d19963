// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/devsession"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/fixture"
)

const developed = `{containers: [{name: app, image: "ghcr.io/acme/shop:1", command: [serve], ports: [{name: http, containerPort: 8080}]}]}`

// newDevelopedWorld is a world of copies whose component web can be developed.
func newDevelopedWorld(t *testing.T) *world {
	t.Helper()
	w := newCopiesWorld(t)
	w.settings.Infrastructure.Images = map[string]string{"runner": "runner:1"}
	w.add(deploymentOf(t, "node", developed))
	w.copiesOf(componentOf("web", "node", ", overrides: {replicas: 2}"), componentOf("api", "api", ""))
	w.settle()
	return w
}

// noted has a DevSession of the component web noted at a stage, as its controller does.
func (w *world) noted(stage devsession.Stage) *GroupWork {
	w.t.Helper()
	work, err := w.reconciler().groupWork(w.t.Context(), testRequest)
	if err != nil {
		w.t.Fatal(err)
	}
	record := devsession.Record{Name: "try", UID: "session", Spec: sandbarv1alpha1.DevSessionSpec{Workload: "web", TargetPath: "/app"}}.At(stage, time.Now())
	if work.Kept.Sessions == nil {
		work.Kept.Sessions = map[string]devsession.Record{}
	}
	work.Kept.Sessions["web"] = record
	if stage == "" {
		delete(work.Kept.Sessions, "web")
	}
	if err := work.Write(w.t.Context(), work.Kept); err != nil {
		w.t.Fatal(err)
	}
	w.settle()
	return work
}

// rendered are what kro gets of each item: its replicas, and whose pods its Service chooses.
func (w *world) rendered() (items []string) {
	w.t.Helper()
	list, _, _ := unstructured.NestedSlice(w.kroInstance().Object, "spec", "render")
	for _, item := range list {
		fields := item.(map[string]any)
		replicas, _, _ := unstructured.NestedInt64(fields, "spec", "replicas")
		selector, _, _ := unstructured.NestedStringMap(fields, "service", "spec", "selector")
		chooses := selector[placement.LabelComponent]
		if session := selector[placement.LabelSessionUID]; session != "" {
			chooses += session
		}
		if selector[placement.LabelInstanceUID] == "" {
			w.t.Errorf("%v chooses pods of other placements", fields["name"])
		}
		items = append(items, fmt.Sprintf("%s %d %s", fields["name"], replicas, chooses))
	}
	return items
}

func (w *world) claimsMade() (names []string) {
	w.t.Helper()
	list, _, _ := unstructured.NestedSlice(w.kroInstance().Object, "spec", "claims")
	for _, item := range list {
		names = append(names, item.(map[string]any)["name"].(string))
	}
	return names
}

func TestTheRenderSaysHowFarASessionIs(t *testing.T) {
	w := newDevelopedWorld(t)
	const copied, api, session = "web-web-sbx 2 web", "web-api-sbx 2 api", "try-dev 1 session"
	led := strings.Replace(copied, " web", " session", 1)
	for _, c := range []struct {
		stage devsession.Stage
		want  []string
		claim bool
	}{
		{devsession.Beside, []string{copied, api, session}, true},
		{devsession.Serving, []string{led, api, session}, true},
		{devsession.Draining, []string{led, api, session}, true},
		{devsession.Alone, []string{strings.Replace(led, " 2 ", " 0 ", 1), api, session}, true},
		{devsession.Returning, []string{led, api, session}, true},
		{devsession.Leaving, []string{copied, api, session}, true},
		{devsession.Left, []string{copied, api, session}, true},
		{devsession.Gone, []string{copied, api}, false},
		{"", []string{copied, api}, false},
	} {
		work := w.noted(c.stage)
		if got := w.rendered(); !slices.Equal(got, c.want) {
			t.Errorf("at %s kro gets %q, want %q", c.stage, got, c.want)
		}
		if slices.Contains(w.claimsMade(), "try-workspace") != c.claim {
			t.Errorf("at %s the claims are %v", c.stage, w.claimsMade())
		}
		if made := work.Copies["web"]; made == nil || *made.Deployment.Spec.Replicas != 2 || made.Service.Name != "web-web-svc" {
			t.Errorf("at %s its controller is told %+v of the copy", c.stage, made)
		}
	}
}

// The attack on data: with the ConfigMap that somebody deletes goes the record, and with that would go the volume.
func TestASessionWhoseRecordIsLostKeepsItsVolume(t *testing.T) {
	w := newDevelopedWorld(t)
	w.noted(devsession.Alone)
	if err := w.runtime.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.id().Namespace(), Name: placement.SnapshotsConfigMap}}); err != nil {
		t.Fatal(err)
	}
	w.settle()
	w.settle()
	if got, want := w.rendered(), []string{"web-web-sbx 2 web", "web-api-sbx 2 api", "try-dev 1 session"}; !slices.Equal(got, want) || !slices.Contains(w.claimsMade(), "try-workspace") {
		t.Errorf("kro gets %q, and the claims %v", got, w.claimsMade())
	}
	work, err := w.reconciler().groupWork(t.Context(), testRequest)
	if err != nil || !work.Made["session"] || len(work.Kept.Sessions) > 0 {
		t.Errorf("its controller is told %+v, %v", work, err)
	}
	w.noted(devsession.Gone)
	if got := w.rendered(); len(got) != 2 || slices.Contains(w.claimsMade(), "try-workspace") {
		t.Errorf("after its end kro gets %q", got)
	}
}

// What a tenant breaks in the component, or an operator withdraws, keeps no session from ending, and takes no volume.
func TestASessionOfAComponentThatIsRefusedEnds(t *testing.T) {
	for name, breaks := range map[string]func(w *world){
		"a component that is refused": func(w *world) {
			w.copiesOf(componentOf("web", "node", ", overrides: {containers: [{name: nobody}]}"), componentOf("api", "api", ""))
		},
		"a Baseline that is withdrawn": func(w *world) { w.settings.Clones.Baselines = nil },
	} {
		t.Run(name, func(t *testing.T) {
			w := newDevelopedWorld(t)
			w.noted(devsession.Alone)
			breaks(w)
			w.settle()
			if got, want := w.rendered(), []string{"web-web-sbx 0 session", "web-api-sbx 2 api", "try-dev 1 session"}; !slices.Equal(got, want) {
				t.Errorf("kro gets %q, want %q", got, want)
			}
			w.noted(devsession.Returning)
			if got := w.rendered(); got[0] != "web-web-sbx 2 session" {
				t.Errorf("on its way out kro gets %q", got)
			}
			w.noted(devsession.Gone)
			if got, want := w.rendered(), []string{"web-web-sbx 2 web", "web-api-sbx 2 api"}; !slices.Equal(got, want) {
				t.Errorf("in the end kro gets %q, want %q", got, want)
			}
		})
	}
}

// Of a session that cannot be rendered any more what was rendered last stays.
func TestASessionThatIsRefusedStaysAsItWas(t *testing.T) {
	w := newDevelopedWorld(t)
	w.noted(devsession.Beside)
	w.settings.Infrastructure.Images = nil
	w.settle()
	if got := w.rendered(); len(got) != 3 || got[2] != "try-dev 1 session" || !slices.Contains(w.claimsMade(), "try-workspace") {
		t.Errorf("kro gets %q", got)
	}
}

func TestASuspensionTakesThePodOfASessionToo(t *testing.T) {
	w := newDevelopedWorld(t)
	w.noted(devsession.Alone)
	w.inKCP.Object["spec"].(map[string]any)["suspended"] = true
	w.settle()
	if got, want := w.rendered(), []string{"web-web-sbx 0 session", "web-api-sbx 0 api", "try-dev 0 session"}; !slices.Equal(got, want) {
		t.Errorf("kro gets %q, want %q", got, want)
	}
	if work, err := w.reconciler().groupWork(t.Context(), testRequest); err != nil || !work.Rests {
		t.Errorf("its controller is told %+v, %v", work, err)
	}
	w.inKCP.Object["spec"].(map[string]any)["suspended"] = false
	w.settle()
	if got, want := w.rendered(), []string{"web-web-sbx 0 session", "web-api-sbx 2 api", "try-dev 1 session"}; !slices.Equal(got, want) {
		t.Errorf("after it has woken kro gets %q, want %q", got, want)
	}
}

func TestAComponentThatASessionServesIsReadyWithTheSession(t *testing.T) {
	w := newDevelopedWorld(t)
	w.noted(devsession.Alone)
	w.kroSays(fixture.KroReady(w.kroInstance().GetGeneration()))
	w.settle()
	w.conditionIs("web", sandbarv1alpha1.ComponentReady, "PodsStarting", "DevSession try serves in the place of the copy, and its pod is not ready")
	pod := fixture.PodOf("try-1", fixture.Running(time.Hour, true, 0))
	pod.Namespace, pod.Labels = w.id().Namespace(), map[string]string{placement.LabelDevelops: "web", placement.LabelSessionUID: "session"}
	w.add(&pod)
	w.settle()
	w.conditionIs("web", sandbarv1alpha1.ComponentReady, "Ready", "DevSession try serves")
	if row := w.component("web"); row.Replicas == nil || *row.Replicas != 2 {
		t.Errorf("the row of the copy is %+v", row)
	}
}

func TestTheSessionsOfAGroupAreToldOfALookAtIt(t *testing.T) {
	w := newDevelopedWorld(t)
	w.noted(devsession.Alone)
	var told []string
	r := w.reconciler()
	r.developed = func(group, session request) {
		told = append(told, group.Name+" "+session.Namespace+"/"+session.Name+" "+session.Cluster)
	}
	if _, err := r.Reconcile(t.Context(), testRequest); err != nil {
		t.Fatal(err)
	}
	if want := []string{"web team-a/try " + fixture.Cluster}; !slices.Equal(told, want) {
		t.Errorf("told of %q, want %q", told, want)
	}
}

// What the provider has a right to write is the ConfigMap alone; kro makes the rest.
func TestASessionIsMadeByKro(t *testing.T) {
	w := newDevelopedWorld(t)
	w.noted(devsession.Beside)
	var services corev1.ServiceList
	if err := w.runtime.List(t.Context(), &services, client.InNamespace(w.id().Namespace())); err != nil || len(services.Items) > 0 {
		t.Errorf("the provider has made %v, %v", services.Items, err)
	}
	list, _, _ := unstructured.NestedSlice(w.kroInstance().Object, "spec", "render")
	item := list[2].(map[string]any)
	labels, _, _ := unstructured.NestedStringMap(item, "labels")
	if types.UID(labels[placement.LabelSessionUID]) != "session" || labels[placement.LabelInstanceUID] == "" || labels[placement.LabelComponent] != "" {
		t.Errorf("the labels of the session are %v", labels)
	}
}
