// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// withRouting is a Sandbox of copies to which requests are led.
type withRouting struct {
	*withWorkloads

	// led is its SandboxRoute, and the Gateway, whose controller the test is.
	led *routed
}

// TestASandboxLeadsRequestsToItsCopies: a Sandbox with routing gets a SandboxRoute beside its SandboxGroup, is Ready when the Gateway takes
// it, tells where requests begin and what keeps them from its copies, and ends the route with the routing and with itself.
func TestASandboxLeadsRequestsToItsCopies(t *testing.T) {
	calm(t)
	tn := newTenant(t, "alice")
	s := &withRouting{withWorkloads: &withWorkloads{t: t, shop: newShop(t, tn.path)}}
	s.led = &routed{t: t, shop: s.shop, gateway: types.NamespacedName{Namespace: s.shop.namespace, Name: "public"}}
	s.led.admits(`"*.example.com"`)
	sandboxes := groups.GroupVersion().WithResource("sandboxes")
	for _, kind := range []string{"sandboxes", "sandboxgroups", "sandboxroutes"} {
		tn.waitServed(groups.GroupVersion().WithResource(kind))
		tn.waitRight(groups.GroupVersion().WithResource(kind))
	}
	spec := s.spec(s.workload("web", "frontend", "mine"))
	spec["routing"] = s.routing("web")
	s.box = tn.create(sandboxes, "Sandbox", "checkout", spec)
	s.group = &instance{tn: tn, gvr: groups, name: "checkout"}
	s.led.group, s.led.route = s.group, &instance{tn: tn, gvr: sandboxRoutes, name: "checkout"}

	s.says("Rendered", metav1.ConditionTrue, "Rendered")
	s.says("Ready", metav1.ConditionFalse, "ResolveFailed") // there is no Gateway
	s.readGroup()
	s.shop.make(gateways, s.shop.namespace, `{apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, metadata: {name: public}, spec: {gatewayClassName: e2e, listeners: [{name: http, port: 80, protocol: HTTP}]}}`)
	s.says("Attached", metav1.ConditionUnknown, "Pending")
	s.says("Ready", metav1.ConditionFalse, "Pending")
	s.isReady()
	s.tellsWhere(t)
	s.isShownByTheCommandLine(t)

	t.Run("its route is put right", func(*testing.T) { s.routeIsPutRight() })
	t.Run("what the Baseline does not admit is told", func(t *testing.T) {
		s.led.admits(`"other.example.com"`)
		s.says("Ready", metav1.ConditionFalse, "NotAllowed")
		if phase := s.phase(); phase != string(sandbarv1alpha1.InstanceDegraded) {
			t.Errorf("the phase is %s", phase)
		}
		s.led.leadsNowhere()
		s.led.admits(`"*.example.com"`)
		s.isReady()
	})
	t.Run("what cannot be is refused with its field", func(t *testing.T) { s.refusesRouting(t) })
	t.Run("suspended it keeps its route", func(t *testing.T) {
		s.box.mustPatch(`{"spec":{"suspended":true}}`)
		s.says("Ready", metav1.ConditionFalse, "SandboxPodDeleted")
		if _, err := s.led.httpRoute(); err != nil {
			t.Error(err)
		}
		s.box.mustPatch(`{"spec":{"suspended":false}}`)
		s.isReady()
	})
	t.Run("without routing the route goes", func(t *testing.T) {
		s.box.mustPatch(`{"spec":{"routing":null}}`)
		s.says("Attached", metav1.ConditionTrue, "NoRouting")
		s.led.leadsNowhere()
		s.box.waitReady()
		if status := s.status(); status.Endpoints != nil || status.UnderlyingRefs == nil || status.UnderlyingRefs.SandboxRouteName != "" {
			t.Errorf("%+v", status)
		}
		s.box.mustPatch(mustJSON(t, map[string]any{"spec": map[string]any{"routing": s.routing("web")}}))
		s.isReady()
	})
	s.goesWithAll()
}

// routing leads all requests to a workload.
func (s *withRouting) routing(workload string) map[string]any {
	return specOf(s.t, fmt.Sprintf(`{provider: gateway, key: {headerName: X-Sandbox-Id},
		gateway: {parentRefs: [{namespace: %s, name: public}], hostnames: [shop.example.com]},
		interceptions: [{name: front, targetService: {name: frontend, namespace: storefront}, matches: [{path: {value: /shop}}], routeTo: {workload: %s, port: http}}]}`, s.shop.namespace, workload))
}

// isShownByTheCommandLine runs the commands about routes. The address is one of the test's: no Gateway serves that of the route.
func (s *withRouting) isShownByTheCommandLine(t *testing.T) {
	q := newTerminal(t, s.box.tn)
	id := groupStatus(t, s.group).SandboxID
	for _, says := range []string{"Header:         x-sandbox-id: " + id + "\n", "True, RouteAttached", "front  /shop and below  web:http\n", "http://shop.example.com/shop\n"} {
		if got := q.must("route", "checkout"); !strings.Contains(got, says) {
			t.Errorf("%q does not say %q", got, says)
		}
	}
	copies := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.URL.Path, " ", r.Header.Get("X-Sandbox-Id"))
	}))
	defer copies.Close()
	if got := q.must("curl", "checkout", copies.URL+"/cart", "--", "--silent"); got != "/cart "+id {
		t.Errorf("the request is %q, and the ID is %s", got, id)
	}
}

// isReady has the Gateway's controller take the HTTPRoute, as often as it changes, until the Sandbox is Ready.
func (s *withRouting) isReady() {
	s.t.Helper()
	eventually(s.t, "requests are led, and the Sandbox is Ready", func() error {
		if err := s.led.take(); err != nil {
			return err
		}
		obj, err := s.box.get()
		if err != nil {
			return err
		}
		if generation, _, _ := unstructured.NestedInt64(obj.Object, "status", "observedGeneration"); generation != obj.GetGeneration() {
			return fmt.Errorf("its status is of generation %d", generation)
		}
		return conditionError(obj, "Ready", metav1.ConditionTrue)
	})
}

func (s *withRouting) phase() string {
	s.t.Helper()
	obj, err := s.box.get()
	if err != nil {
		s.t.Fatal(err)
	}
	phase, _, _ := unstructured.NestedString(obj.Object, "status", "phase")
	return phase
}

func (s *withRouting) tellsWhere(t *testing.T) {
	status := s.status()
	id := groupStatus(t, s.group).SandboxID
	want := sandbarv1alpha1.SandboxWorkloadsStatus{
		RoutingKey:     &sandbarv1alpha1.RoutingKey{HeaderName: "x-sandbox-id", Value: id},
		UnderlyingRefs: &sandbarv1alpha1.SandboxUnderlyingRefs{SandboxGroupName: "checkout", SandboxRouteName: "checkout"},
		Endpoints: []sandbarv1alpha1.SandboxEndpoint{
			{Name: "front", URL: "http://shop.example.com/shop", Hostname: "shop.example.com", Path: "/shop", Interception: "front"},
		},
		Workloads: status.Workloads,
	}
	if diff := cmp.Diff(want, status); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	route, err := s.led.route.get()
	if err != nil {
		t.Fatal(err)
	}
	if ref := metav1.GetControllerOf(route); ref == nil || ref.UID != s.box.id.UID || route.GetLabels()[placement.LabelProject] != "shop" {
		t.Errorf("the route has the owners %v and the labels %v", route.GetOwnerReferences(), route.GetLabels())
	}
}

func (s *withRouting) routeIsPutRight() {
	s.led.route.mustPatch(`{"metadata":{"ownerReferences":null,"labels":{"theirs":"stays"}},"spec":{"selectorHeaderName":"x-theirs"}}`)
	eventually(s.t, "the route is as it was", func() error {
		obj, err := s.led.route.get()
		if err != nil {
			return err
		}
		if header, _, _ := unstructured.NestedString(obj.Object, "spec", "selectorHeaderName"); header != "X-Sandbox-Id" || metav1.GetControllerOf(obj) == nil || obj.GetLabels()["theirs"] != "stays" {
			return fmt.Errorf("it is %v", obj.Object)
		}
		return nil
	})
	former, err := s.led.route.get()
	if err != nil {
		s.t.Fatal(err)
	}
	s.led.route.delete()
	eventually(s.t, "there is another route", func() error {
		obj, err := s.led.route.get()
		if err == nil && obj.GetUID() == former.GetUID() {
			err = errors.New("it is the former one")
		}
		return err
	})
	s.isReady()
}

// refusesRouting: what the schema knows to be wrong the workspace refuses; a port that is not there is told; and a provider that is not
// offered can be corrected.
func (s *withRouting) refusesRouting(t *testing.T) {
	_, err := s.box.tn.dyn.Resource(s.box.gvr).Namespace("default").Patch(t.Context(), "checkout", types.MergePatchType,
		[]byte(mustJSON(t, map[string]any{"spec": map[string]any{"routing": s.routing("nothing")}})), metav1.PatchOptions{})
	if !apierrors.IsInvalid(err) {
		t.Errorf("a workload that is not there: %v", err)
	}
	routing := s.routing("web")
	s.box.mustPatch(`{"spec":{"routing":{"provider":"proxy","gateway":null}}}`)
	s.says("Ready", metav1.ConditionFalse, "ProviderUnavailable")
	s.led.leadsNowhere()
	s.box.mustPatch(mustJSON(t, map[string]any{"spec": map[string]any{"routing": routing}}))
	s.isReady()
}

// goesWithAll deletes the Sandbox.
func (s *withRouting) goesWithAll() {
	s.t.Helper()
	id := s.readGroup().GetUID()
	s.box.delete()
	eventually(s.t, "the Sandbox, its group and its route are gone", func() error {
		for _, one := range []*instance{s.box, s.group, s.led.route} {
			if _, err := one.get(); !apierrors.IsNotFound(err) {
				return errors.Join(fmt.Errorf("%s %s is there", one.gvr.Resource, one.name), err)
			}
		}
		return nil
	})
	waitGone(s.t, placement.ID{Origin: s.box.tn.cluster, UID: id})
}
