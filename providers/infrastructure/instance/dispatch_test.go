// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/fixture"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/place"
)

func TestAnObjectAsksForTheInstanceItIsPartOf(t *testing.T) {
	owned := func(change func(*corev1.Namespace)) metav1.Object {
		ns := place.BuildNamespace(fixture.NewScope())
		change(ns)
		return ns
	}
	for name, test := range map[string]struct {
		obj  metav1.Object
		want bool
	}{
		"a placement":                     {obj: owned(func(*corev1.Namespace) {}), want: true},
		"a placement without its cluster": {obj: owned(func(ns *corev1.Namespace) { delete(ns.Labels, placement.LabelCluster) })},
		"something unlabelled":            {obj: &corev1.Namespace{}},
	} {
		o, ok := ownerOfPlacement(test.obj)
		if ok != test.want || (ok && o != owner{template: "thing", req: testRequest}) {
			t.Errorf("%s: %v, %v", name, o, ok)
		}
	}
}

// wakings are what a dispatcher says, in order.
type wakings []string

func (w *wakings) wake(template string, req request, mayWait bool) {
	said := template + " " + req.Name
	if mayWait {
		said += " may wait"
	}
	*w = append(*w, said)
}

func TestAPodWakesTheInstanceOfItsNamespace(t *testing.T) {
	var said wakings
	d := newDispatcher(said.wake, func(string) {})
	ns := place.BuildNamespace(fixture.NewScope())
	pod := &corev1.Pod{}
	pod.Namespace = ns.Name
	namespaces, pods := export.OnEvents(d.namespaceChanged, always), d.handler(d.ownerOf, outcome.PodMatters)

	pods.OnAdd(pod, false) // its namespace is not known yet, and wakes the instance itself
	namespaces.OnAdd(ns, true)
	pods.OnAdd(pod, false)
	same := pod.DeepCopy()
	same.ResourceVersion = "2"
	pods.OnUpdate(pod, same)
	failed := pod.DeepCopy()
	failed.Status.Phase = corev1.PodFailed
	pods.OnUpdate(same, failed)
	pods.OnDelete(toolscache.DeletedFinalStateUnknown{Obj: failed})
	namespaces.OnDelete(ns)
	pods.OnDelete(failed)

	want := wakings{"thing web may wait", "thing web", "thing web", "thing web", "thing web"}
	if diff := cmp.Diff(want, said); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(d.owners) != 0 {
		t.Errorf("a namespace that is gone is remembered: %v", d.owners)
	}
}

// What is left to do after a warm start is the finalizer. Twenty claims at once would else wait for the finalizers of those
// that were served first.
func TestTheLookAfterAnAdoptionWaitsForClaims(t *testing.T) {
	adopted := func(ago time.Duration) *corev1.Namespace {
		ns := bornNamespace()
		ns.Annotations[placement.AnnotationAdoptedAt] = time.Now().Add(-ago).Format(time.RFC3339Nano)
		return ns
	}
	deleting := adopted(time.Second)
	deleting.DeletionTimestamp = new(metav1.Now())
	for name, test := range map[string]struct {
		ns   *corev1.Namespace
		want wakings
	}{
		"adopted a moment ago":                     {adopted(time.Second), wakings{"thing web may wait"}},
		"adopted long ago":                         {adopted(time.Minute), wakings{"thing web"}},
		"made for it":                              {place.BuildNamespace(fixture.NewScope()), wakings{"thing web"}},
		"adopted a moment ago, and deleted by now": {deleting, wakings{"thing web"}},
	} {
		var said wakings
		newDispatcher(said.wake, func(string) {}).namespaceChanged(test.ns, false, false)
		if diff := cmp.Diff(test.want, said); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Nothing that happens to a placement of another provider on the runtime cluster is looked at, nor what lies in it.
func TestAnotherProvidersPlacementWakesNobody(t *testing.T) {
	for provider, want := range map[string]wakings{fixture.Provider: {"thing web", "thing web"}, "another": nil} {
		var said wakings
		d := newDispatcher(said.wake, func(string) {})
		d.ours = madeBy(t.Context(), providerIs(provider))
		ns := place.BuildNamespace(fixture.NewScope())
		d.namespaceChanged(ns, false, false)
		if o, ok := d.ownerOf(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name}}, false); ok {
			d.tell(o, false)
		}
		if diff := cmp.Diff(want, said); diff != "" {
			t.Errorf("as the provider %s (-want +got):\n%s", provider, diff)
		}
	}
}
