// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	kcpapisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	kcpapisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/offer"
)

// narrowingWorld is a Template of which tenants have generation 1, and whose generation 2 admits less.
type narrowingWorld struct {
	*testing.T
	*reconciler

	tmpl *sandbarv1alpha1.Template
	plan *plan
	time time.Time
	// bound is the schema that the one binding has, and lists what the shard answers to a list of
	// instances.
	bound string
	lists int
	// specs are those of the instances that there are, in JSON.
	specs []string
}

func newNarrowingWorld(t *testing.T) *narrowingWorld {
	t.Helper()
	tmpl := plainTemplate(t, `{"suspended": "boolean | default=false"}`)
	tmpl.Finalizers, tmpl.Generation = []string{Finalizer}, 2
	p, err := newPlan(tmpl)
	if err != nil {
		t.Fatal(err)
	}
	p.offered = &apiextensionsv1.JSONSchemaProps{Type: "object"}
	tmpl.Status.Kind, tmpl.Status.Group, tmpl.Status.Version, tmpl.Status.Resource = p.kind, p.gvr.Group, p.gvr.Version, p.gvr.Resource
	tmpl.Status.DataPlane, tmpl.Status.SchemaName = p.dataPlane, "former"
	meta.SetStatusCondition(&tmpl.Status.Conditions, metav1.Condition{
		Type: sandbarv1alpha1.TemplateExported, Status: metav1.ConditionTrue, Reason: reasonExported, ObservedGeneration: 1,
	})
	w := &narrowingWorld{T: t, tmpl: tmpl, plan: p, time: time.Now(), bound: "former", lists: http.StatusOK}
	shard := httptest.NewServer(w)
	t.Cleanup(shard.Close)

	slice := &kcpapisv1alpha1.APIExportEndpointSlice{ObjectMeta: metav1.ObjectMeta{Name: sandbarv1alpha1.GroupName}}
	slice.Status.APIExportEndpoints = []kcpapisv1alpha1.APIExportEndpoint{{URL: shard.URL}}
	export := &kcpapisv1alpha2.APIExport{ObjectMeta: metav1.ObjectMeta{Name: sandbarv1alpha1.GroupName}}
	export.Spec.Resources = []kcpapisv1alpha2.ResourceSchema{{Group: p.gvr.Group, Name: p.gvr.Resource, Schema: "former"}}
	policy := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: offer.PolicyRole}, Rules: tenantRules(p.gvr.Resource, p.dataPlane, offer.AllVerbs)}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		sandbarv1alpha1.AddToScheme, kcpapisv1alpha1.AddToScheme, kcpapisv1alpha2.AddToScheme, rbacv1.AddToScheme, corev1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(tmpl.DeepCopy(), slice, export, policy).Build()
	w.reconciler = &reconciler{
		opts: Options{}.withDefaults(), kcp: c, kcpConfig: &rest.Config{}, offers: &offer.Offers{KCP: c, Policy: c, ExportName: sandbarv1alpha1.GroupName}, runtime: c,
		own: map[string]*apiextensionsv1.CustomResourceDefinition{}, narrowings: map[string]*narrowing{}, looks: map[string]look{},
		now: func() time.Time { return w.time },
	}
	return w
}

// ServeHTTP answers as the virtual workspace of a shard with one binding.
func (w *narrowingWorld) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	rw.Header().Set("Content-Type", "application/json")
	if strings.HasSuffix(r.URL.Path, "/apibindings") {
		_, _ = fmt.Fprintf(rw, `{"apiVersion":"apis.kcp.io/v1alpha1","kind":"APIBindingList","metadata":{},"items":[{
			"apiVersion":"apis.kcp.io/v1alpha1","kind":"APIBinding","metadata":{"name":"sandbar"},
			"status":{"boundResources":[{"resource":%q,"schema":{"name":%q}}]}}]}`, w.plan.gvr.Resource, w.bound)
		return
	}
	if w.lists != http.StatusOK {
		http.Error(rw, "not now", w.lists)
		return
	}
	var items []string
	for i, spec := range w.specs {
		items = append(items, fmt.Sprintf(`{"apiVersion":"sandbar.dev/v1alpha1","kind":"Thing",
			"metadata":{"name":"a%d","namespace":"default","uid":"uid-%d","annotations":{"kcp.io/cluster":"tenant"}},"spec":%s}`, i, i, spec))
	}
	_, _ = fmt.Fprintf(rw, `{"apiVersion":"sandbar.dev/v1alpha1","kind":"ThingList","metadata":{},"items":[%s]}`, strings.Join(items, ","))
}

// wantVerbs fails unless tenants have these verbs on the kind.
func (w *narrowingWorld) wantVerbs(when string, want []string) {
	w.Helper()
	role := &rbacv1.ClusterRole{}
	if err := w.offers.Policy.Get(w.Context(), types.NamespacedName{Name: offer.PolicyRole}, role); err != nil {
		w.Fatal(err)
	}
	if got := strings.Join(role.Rules[0].Verbs, ","); got != strings.Join(want, ",") {
		w.Errorf("%s tenants may %s, want %s", when, got, strings.Join(want, ","))
	}
}

// step takes a step of the narrowing and returns whether it is done.
func (w *narrowingWorld) step() (wait time.Duration, done bool) {
	w.Helper()
	wait, done, err := w.narrow(w.Context(), w.tmpl, w.plan, "new")
	if err != nil {
		w.Fatal(err)
	}
	return wait, done
}

// refuse edits the Template to what is refused, and returns when it is looked at again.
func (w *narrowingWorld) refuse() time.Duration {
	w.Helper()
	w.tmpl.Spec.Graph.Raw = []byte(`{}`)
	w.tmpl.Generation++
	wait, err := w.publish(w.Context(), w.tmpl)
	if err != nil {
		w.Fatal(err)
	}
	return wait
}

func (w *narrowingWorld) wantCondition(name string, status metav1.ConditionStatus, reason string, generation int64) {
	w.Helper()
	c := meta.FindStatusCondition(w.tmpl.Status.Conditions, name)
	if c == nil || c.Status != status || c.Reason != reason || c.ObservedGeneration != generation {
		w.Errorf("%s is %+v, want %s %s of generation %d", name, c, status, reason, generation)
	}
}

// The entry of a narrowing that was given up stayed: nobody could write the kind any more, and the next
// narrowing went on as if writes had been stopped for long.
func TestANarrowingThatIsGivenUpGivesTenantsTheirRightsBack(t *testing.T) {
	w := newNarrowingWorld(t)
	if wait, done := w.step(); done || wait != policySettles {
		t.Fatalf("a narrowing begins: done %v, wait %v", done, wait)
	}
	w.wantVerbs("while it is narrowed", offer.AllButChange)
	w.wantCondition(sandbarv1alpha1.TemplateExported, metav1.ConditionTrue, reasonNarrowing, 1)
	if wait := w.refuse(); wait != 0 {
		t.Errorf("looked at again after %v", wait)
	}
	w.wantVerbs("after another edit was refused", offer.AllVerbs)
	w.wantCondition(sandbarv1alpha1.TemplateExported, metav1.ConditionTrue, reasonExported, 1)
	w.wantCondition(sandbarv1alpha1.TemplateReady, metav1.ConditionTrue, reasonPrevious, 1)

	w.time = w.time.Add(24 * time.Hour)
	if wait, done := w.step(); done || wait != policySettles {
		t.Errorf("the next narrowing: done %v, wait %v", done, wait)
	}
	w.wantVerbs("while it is narrowed again", offer.AllButChange)
}

func TestANarrowingIsGivenUpWhileTheInstancesCannotBeListed(t *testing.T) {
	for _, status := range []int{http.StatusServiceUnavailable, http.StatusNotFound} {
		w := newNarrowingWorld(t)
		w.step()
		w.time, w.lists = w.time.Add(policySettles), status
		if _, _, err := w.narrow(t.Context(), w.tmpl, w.plan, "new"); err == nil {
			t.Errorf("%d: an answer that says nothing of the instances is taken for one that there are none", status)
		}
		if _, err := w.giveUpNarrowing(t.Context(), w.tmpl); err != nil {
			t.Fatal(err)
		}
		w.wantVerbs("when it is tried again", offer.AllVerbs)
	}
}

func TestANarrowingThatIsTakenBackIsForgotten(t *testing.T) {
	w := newNarrowingWorld(t)
	w.step()
	offered := w.plan.offered
	w.plan.offered = nil
	if _, done := w.step(); !done {
		t.Error("it goes on")
	}
	w.time, w.plan.offered = w.time.Add(24*time.Hour), offered
	if wait, done := w.step(); done || wait != policySettles {
		t.Errorf("the next narrowing: done %v, wait %v", done, wait)
	}
}

// From the switch on tenants may write when no binding has the former schema any more, also when the
// Template is refused by then.
func TestANarrowingThatIsGivenUpAfterTheSwitchWaitsForTheBindings(t *testing.T) {
	w := newNarrowingWorld(t)
	w.step()
	w.time = w.time.Add(policySettles)
	if wait, done := w.step(); done || wait != lookAgain {
		t.Fatalf("after the switch: done %v, wait %v", done, wait)
	}
	if wait := w.refuse(); wait != lookAgain {
		t.Errorf("looked at again after %v", wait)
	}
	w.wantVerbs("while a binding has the former schema", offer.AllButChange)
	w.wantCondition(sandbarv1alpha1.TemplateReady, metav1.ConditionFalse, reasonInvalid, 3)
	w.bound = "new"
	w.refuse()
	w.wantVerbs("when no binding has it", offer.AllVerbs)
}

func TestWhatStopsWritesIsSetAgainIfSomebodyTakesItAway(t *testing.T) {
	w := newNarrowingWorld(t)
	w.step()
	if _, err := w.offers.SetRules(t.Context(), w.plan.gvr.Resource, tenantRules(w.plan.gvr.Resource, w.plan.dataPlane, offer.AllVerbs)); err != nil {
		t.Fatal(err)
	}
	w.time = w.time.Add(policySettles)
	if wait, done := w.step(); done || wait != policySettles {
		t.Errorf("done %v, wait %v", done, wait)
	}
	w.wantVerbs("then", offer.AllButChange)
}

func TestNothingIsRememberedOfATemplateThatIsGone(t *testing.T) {
	w := newNarrowingWorld(t)
	gone := ctrl.Request{NamespacedName: types.NamespacedName{Name: "gone"}}
	w.narrowings[gone.Name], w.looks[gone.Name], w.own[gone.Name] = &narrowing{since: w.time}, look{}, nil
	if _, err := w.Reconcile(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	if n := len(w.narrowings) + len(w.looks) + len(w.own); n > 0 {
		t.Errorf("%d entries are left", n)
	}
}
