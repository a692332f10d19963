// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

const levelOfPlacement = "pod-security.kubernetes.io/enforce"

// newTwoBaselinesWorld is a world of copies with a second Baseline, which shares the Secrets of the same namespace, lets
// its copies do more, and has that namespace under the name of the tenant's own.
func newTwoBaselinesWorld(t *testing.T) *world {
	t.Helper()
	w := newCopiesWorld(t)
	shop := &w.settings.Clones.Baselines[0]
	loose := *shop.DeepCopy()
	loose.Name, loose.Spec.PodSecurity = "loose", "privileged"
	loose.Spec.Namespaces = []sandbarv1alpha1.BaselineNamespace{{Name: "prod-shop", As: "storefront"}, {Name: "prod-loose", As: "team-a"}}
	loose.Spec.Workloads.Names = []string{"api"}
	shop.Spec.References.Secrets.Policy = sandbarv1alpha1.BaselineRefuse
	shop.Spec.PodSecurity = "baseline"
	w.settings.Clones.Baselines = append(w.settings.Clones.Baselines, loose)
	return w
}

// means has the tenant name a Baseline; none if the name is empty.
func (w *world) means(name string) {
	w.t.Helper()
	spec := w.inKCP.Object["spec"].(map[string]any)
	delete(spec, "baselineRef")
	if name != "" {
		spec["baselineRef"] = map[string]any{"name": name}
	}
	w.inKCP.SetGeneration(w.inKCP.GetGeneration() + 1)
}

func (w *world) egressReaches(namespace string) bool {
	w.t.Helper()
	policy := &networkingv1.NetworkPolicy{}
	if err := w.runtime.Get(w.t.Context(), client.ObjectKey{Namespace: w.id().Namespace(), Name: "sandbar-egress"}, policy); err != nil {
		w.t.Fatal(err)
	}
	return strings.Contains(policy.Spec.String(), namespace)
}

// wantIsolationOfShop checks that nothing in the placement follows the second Baseline.
func (w *world) wantIsolationOfShop() {
	w.t.Helper()
	if got := w.namespace().Labels[levelOfPlacement]; got != "baseline" {
		w.t.Errorf("copies of shop have the pod security level %s", got)
	}
	if !w.egressReaches("prod-shop") || w.egressReaches("prod-loose") {
		w.t.Error("copies of shop have the network of another Baseline")
	}
	err := w.runtime.Get(w.t.Context(), client.ObjectKey{Namespace: w.id().Namespace(), Name: "db"}, &corev1.Secret{})
	if !apierrors.IsNotFound(err) {
		w.t.Errorf("a Secret that shop does not share is beside its copies: %v", err)
	}
}

// A workload of a Baseline that refuses Secrets, and whose copies may do less, under the rules of another one.
func TestAPlacementIsOfOneBaselineInItsLife(t *testing.T) {
	for name, change := range map[string]func(*world){
		"another name": func(w *world) { w.means("loose") },
		"no name, in a namespace that the other has": func(w *world) { w.means("") },
	} {
		t.Run(name, func(t *testing.T) {
			w := newTwoBaselinesWorld(t)
			const plain = `, overrides: {replicas: 1}, podTemplatePatch: [{op: remove, path: /spec/containers/0/envFrom}]`
			w.copiesOf(componentOf("web", "frontend", plain), componentOf("api", "api", ""))
			unheard := w.staleNamespaces()
			w.settle()
			w.wantCopies("web-web-sbx 1 ghcr.io/acme/shop:1")
			w.wantIsolationOfShop()

			change(w)
			w.stale = unheard // the cache does not show yet what the placement was made for
			if err := w.reconcile(); err != nil {
				t.Fatal(err)
			}
			w.wantIsolationOfShop()
			w.stale = nil
			w.settle()
			w.wantCopies("web-web-sbx 1 ghcr.io/acme/shop:1")
			w.wantIsolationOfShop()
			if got := w.composed(); !strings.HasPrefix(got, "BaselineChanged: spec.baselineRef.name: the copies are of Baseline shop, and cannot become those of loose: set it to shop") {
				t.Errorf("Composed is %s", got)
			}

			w.copiesOf(componentOf("web", "frontend", strings.Replace(plain, "1", "2", 1)))
			w.settle()
			w.wantCopies("web-web-sbx 2 ghcr.io/acme/shop:1")
		})
	}
}

// Pods that are evicted are made again: a level below that of the Baseline would refuse them.
func TestCopiesKeepTheirPodSecurityLevelWhenTheirBaselineIsWithdrawn(t *testing.T) {
	w := newTwoBaselinesWorld(t)
	w.settle()
	w.settings.Clones.Baselines = w.settings.Clones.Baselines[1:]
	w.settle()
	if got := w.namespace().Labels[levelOfPlacement]; got != "baseline" {
		t.Errorf("their level is %s", got)
	}
	if w.egressReaches("prod-shop") {
		t.Error("they reach the Baseline still")
	}
	// A change of the description is written, and leaves the level.
	w.inKCP.Object["spec"].(map[string]any)["displayName"] = "Shop"
	w.means("loose")
	w.settle()
	if got := w.namespace().Labels[levelOfPlacement]; got != "baseline" {
		t.Errorf("another Baseline gives them the level %s", got)
	}
	w.means("nothing")
	w.settle()
	if got := w.namespace(); got.Labels[levelOfPlacement] != "baseline" || got.Annotations["sandbar.dev/display-name"] != "Shop" {
		t.Errorf("%v, %v", got.Labels, got.Annotations)
	}
}

// An operator who takes a workload out of the Baseline: its copy stays as it is, and takes no change.
func TestACopyTakesNoChangeOnceItsWorkloadIsNotOffered(t *testing.T) {
	const change = `, overrides: {replicas: 1, containers: [{name: app, image: "ghcr.io/acme/shop:9"}]}`
	named := func(names ...string) func(*sandbarv1alpha1.BaselineWorkloads) {
		return func(w *sandbarv1alpha1.BaselineWorkloads) { w.Names = names }
	}
	labelled := func(tier string) func(*sandbarv1alpha1.BaselineWorkloads) {
		return func(w *sandbarv1alpha1.BaselineWorkloads) {
			w.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": tier}}
		}
	}
	for name, c := range map[string]struct {
		narrow, widen func(*sandbarv1alpha1.BaselineWorkloads)
		want          string
	}{
		"by its name":      {narrow: named("api"), widen: named("api", "frontend"), want: "Baseline shop does not offer Deployment frontend any more"},
		"by its labels":    {narrow: labelled("data"), widen: labelled("web"), want: "Baseline shop does not offer Deployment frontend any more"},
		"by a wrong label": {narrow: labelled("-"), widen: labelled("web"), want: "its selector is wrong"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newCopiesWorld(t)
			w.labelsSource("frontend", "web")
			w.settle()
			w.labelsSource("frontend", "data") // what counts are the labels that it was offered by
			chosen := &w.settings.Clones.Baselines[0].Spec.Workloads
			c.narrow(chosen)
			w.copiesOf(componentOf("web", "frontend", change), componentOf("api", "api", ""))
			w.settle()
			if got := w.copiesMade()[0]; got != "web-web-sbx 2 ghcr.io/acme/shop:1" {
				t.Errorf("the copy is %s", got)
			}
			w.conditionIs("web", sandbarv1alpha1.ComponentSourceResolved, "NotAllowed", c.want)
			w.changeSource("frontend", "ghcr.io/acme/shop:2")
			chosen.Selector = nil
			c.widen(chosen)
			w.settle()
			if got := w.copiesMade()[0]; got != "web-web-sbx 1 ghcr.io/acme/shop:9" {
				t.Errorf("offered again, the copy is %s", got)
			}
		})
	}
}

// What earlier versions have frozen has no labels: it is used where those do not count.
func TestWhatWasFrozenWithoutLabelsIsFrozenAgainForASelector(t *testing.T) {
	w := newCopiesWorld(t)
	w.labelsSource("frontend", "web")
	w.settle()
	stored := &corev1.ConfigMap{}
	if err := w.runtime.Get(t.Context(), client.ObjectKey{Namespace: w.id().Namespace(), Name: placement.SnapshotsConfigMap}, stored); err != nil {
		t.Fatal(err)
	}
	delete(stored.Data, "sandbox.labels")
	mustUpdate(t, w.runtime, stored)
	w.changeSource("frontend", "ghcr.io/acme/shop:2")
	chosen := &w.settings.Clones.Baselines[0].Spec.Workloads
	chosen.Names = []string{"frontend"}
	w.settle()
	w.wantCopies("web-web-sbx 2 ghcr.io/acme/shop:1")
	chosen.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "web"}}
	w.settle()
	w.wantCopies("web-web-sbx 2 ghcr.io/acme/shop:2")
}

// labelsSource gives a workload of the Baseline another label tier.
func (w *world) labelsSource(name, tier string) {
	w.t.Helper()
	d := &appsv1.Deployment{}
	if err := w.runtime.Get(w.t.Context(), client.ObjectKey{Namespace: "prod-shop", Name: name}, d); err != nil {
		w.t.Fatal(err)
	}
	d.Labels = map[string]string{"tier": tier}
	mustUpdate(w.t, w.runtime, d)
}
