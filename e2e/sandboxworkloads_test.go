// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// withWorkloads is a Sandbox of copies, and its SandboxGroup.
type withWorkloads struct {
	t          *testing.T
	shop       *shop
	box, group *instance
}

// workload is one of the Sandbox's, of the frontend, whose greeting is another.
func (s *withWorkloads) workload(name, source, greeting string) string {
	return fmt.Sprintf(`{name: %s, type: inherit, inherit: {
		sourceRef: {apiVersion: apps/v1, kind: Deployment, name: %s, namespace: storefront},
		overrides: {replicas: 1, containers: [{name: app, env: [{name: GREETING, value: %s}]}]}}}`, name, source, greeting)
}

// spec is that of the Sandbox with these workloads.
func (s *withWorkloads) spec(workloads string) map[string]any {
	s.t.Helper()
	spec := map[string]any{}
	if err := yaml.Unmarshal([]byte(`{projectRef: {id: shop}, baselineRef: {name: `+s.shop.name+`}, workloads: [`+workloads+`]}`), &spec); err != nil {
		s.t.Fatal(err)
	}
	return spec
}

func (s *withWorkloads) status() (status sandbarv1alpha1.SandboxWorkloadsStatus) {
	s.t.Helper()
	obj, err := s.box.get()
	if err != nil {
		s.t.Fatal(err)
	}
	fields, _ := obj.Object["status"].(map[string]any)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &status); err != nil {
		s.t.Fatal(err)
	}
	return status
}

// says waits until a condition of the Sandbox is False, or True, for a reason.
func (s *withWorkloads) says(kind string, want metav1.ConditionStatus, reason string) {
	s.t.Helper()
	eventually(s.t, fmt.Sprintf("%s is %s: %s", kind, want, reason), func() error {
		obj, err := s.box.get()
		if err != nil {
			return err
		}
		if err := conditionError(obj, kind, want); err != nil {
			return err
		}
		if c := condition(obj, kind); c["reason"] != reason {
			return fmt.Errorf("it says %v", c)
		}
		return nil
	})
}

// readGroup finds the SandboxGroup that the provider has made, and with it the placement.
func (s *withWorkloads) readGroup() *unstructured.Unstructured {
	s.t.Helper()
	obj, err := s.group.get()
	if err != nil {
		s.t.Fatal(err)
	}
	s.group.id = placement.ID{Origin: s.box.tn.cluster, UID: obj.GetUID()}
	return obj
}

// TestASandboxHasCopiesOfWhatRuns: a Sandbox of two workloads gets a SandboxGroup that has them, its status says how they are,
// and it is changed, suspended and deleted with all that is made for it.
func TestASandboxHasCopiesOfWhatRuns(t *testing.T) {
	calm(t)
	tn := newTenant(t, "alice")
	s := &withWorkloads{t: t, shop: newShop(t, tn.path)}
	for _, kind := range []string{"sandboxes", "sandboxgroups"} {
		tn.waitServed(groups.GroupVersion().WithResource(kind))
		tn.waitRight(groups.GroupVersion().WithResource(kind))
	}
	s.box = tn.create(groups.GroupVersion().WithResource("sandboxes"), "Sandbox", "preview",
		s.spec(s.workload("web", "frontend", "mine")+", "+s.workload("api", "backend", "also-mine")))
	s.group = &instance{tn: tn, gvr: groups, name: "preview"}
	s.box.waitReady()
	group := s.readGroup()
	if ref := metav1.GetControllerOf(group); ref == nil || ref.UID != s.box.id.UID || group.GetLabels()[placement.LabelProject] != "shop" {
		t.Errorf("the group has the owners %v and the labels %v", group.GetOwnerReferences(), group.GetLabels())
	}
	status := s.status()
	if status.RoutingKey == nil || status.RoutingKey.HeaderName != "baggage" || status.RoutingKey.Value != groupStatus(t, s.group).SandboxID ||
		status.UnderlyingRefs == nil || status.UnderlyingRefs.SandboxGroupName != "preview" || len(status.Workloads) != 2 {
		t.Fatalf("%+v", status)
	}
	for _, row := range status.Workloads {
		if !row.Ready || row.Replicas == nil || *row.Replicas != 1 || row.Image != toolchain {
			t.Errorf("%+v", row)
		}
	}
	s.shop.answers(s.group.id.Namespace(), "preview-web-svc", "/all", "mine hunter2 production-backend hunter2")
	s.shop.answers(s.group.id.Namespace(), "preview-api-svc", "/", "also-mine hunter2")

	t.Run("its workloads have the verbs of their pods", func(t *testing.T) { s.verbs(t) })
	t.Run("another one is cloned with one command", func(t *testing.T) { cloned(t, s) })
	t.Run("it has no placement of its own", func(t *testing.T) { waitGone(t, s.box.id) })
	t.Run("one override is changed", func(t *testing.T) { s.changes(t) })
	t.Run("one workload that is not there is told of", func(t *testing.T) { s.tellsOfOne(t) })
	t.Run("its group is put right", func(t *testing.T) { s.isPutRight(t) })
	t.Run("suspended it has no pods, and comes back", func(t *testing.T) { s.rests(t) })
	t.Run("what would end a group in use is refused", func(t *testing.T) { s.refuses(t) })

	id := s.readGroup().GetUID()
	s.box.delete()
	eventually(t, "the Sandbox and its group are gone", func() error {
		for _, one := range []*instance{s.box, s.group} {
			if _, err := one.get(); !apierrors.IsNotFound(err) {
				return errors.Join(fmt.Errorf("%s %s is there", one.gvr.Resource, one.name), err)
			}
		}
		return nil
	})
	waitGone(t, placement.ID{Origin: tn.cluster, UID: id})
	s.shop.answers(s.shop.namespace, "backend", "/", "production-backend hunter2") // and the Baseline goes on
}

// verbs calls the Sandbox's own verbs, which lead to the pods of its group.
func (s *withWorkloads) verbs(t *testing.T) {
	caller := callAs(t, s.box.tn.token)
	if got := caller.want(http.StatusOK, "GET", s.box.base()+"/components/web/ports/http/proxy/", nil); got != "mine hunter2" {
		t.Errorf("proxy: %q", got)
	}
	caller.wantStatus(http.StatusNotFound, "GET", s.box.base()+"/log", nil)
	terminal := newTerminal(t, s.box.tn)
	terminal.must("trust", world.URL, "--ca-file", world.CAFile)
	lines := strings.Split(strings.TrimSpace(terminal.must("logs", "sandbox/preview")), "\n")
	slices.Sort(lines)
	if want := []string{"api | up also-mine", "web | up mine"}; !slices.Equal(lines, want) {
		t.Errorf("logs: %q, want %q", lines, want)
	}
}

// cloned makes a Sandbox of a workload of the shop by the command line.
func cloned(t *testing.T, of *withWorkloads) {
	s := newTerminal(t, of.box.tn)
	s.must("trust", world.URL, "--ca-file", world.CAFile)
	s.must("clone", "web="+of.shop.name+"/frontend", "--name", "cloned", "--env", "web/app:GREETING=cloned", "--replicas", "web=1", "--wait")
	if log := s.must("logs", "sandbox/cloned"); log != "web | up cloned\n" {
		t.Errorf("its log is %q", log)
	}
	s.must("delete", "sandbox/cloned")
}

// patchWorkloads replaces the workloads.
func (s *withWorkloads) patchWorkloads(workloads string) {
	s.t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(`{spec: {workloads: [` + workloads + `]}}`))
	if err != nil {
		s.t.Fatal(err)
	}
	s.box.mustPatch(string(raw))
}

func (s *withWorkloads) changes(t *testing.T) {
	key := s.status().RoutingKey.Value
	s.patchWorkloads(s.workload("web", "frontend", "changed") + ", " + s.workload("api", "backend", "also-mine"))
	s.shop.answers(s.group.id.Namespace(), "preview-web-svc", "/", "changed hunter2")
	s.box.waitReady()
	if now := s.status().RoutingKey; now == nil || now.Value != key {
		t.Errorf("the routing key was %s and is %v", key, now)
	}
}

func (s *withWorkloads) tellsOfOne(t *testing.T) {
	s.patchWorkloads(s.workload("web", "frontend", "changed") + ", " + s.workload("api", "nothing", "also-mine"))
	s.says("Rendered", metav1.ConditionFalse, "SourceNotFound")
	s.says("Ready", metav1.ConditionFalse, "SourceNotFound")
	s.shop.answers(s.group.id.Namespace(), "preview-web-svc", "/", "changed hunter2")
	s.patchWorkloads(s.workload("web", "frontend", "changed"))
	s.box.waitReady()
	if rows := s.status().Workloads; len(rows) != 1 || rows[0].Name != "web" {
		t.Errorf("%+v", rows)
	}
}

func (s *withWorkloads) isPutRight(t *testing.T) {
	s.group.mustPatch(`{"metadata":{"ownerReferences":null,"labels":{"theirs":"stays"}},"spec":{"suspended":true,"components":[
		{"name":"other","sourceRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"backend","namespace":"storefront"}}]}}`)
	eventually(t, "the group is as it was", func() error {
		obj, err := s.group.get()
		if err != nil {
			return err
		}
		components, _, _ := unstructured.NestedSlice(obj.Object, "spec", "components")
		suspended, _, _ := unstructured.NestedBool(obj.Object, "spec", "suspended")
		first, _ := components[0].(map[string]any)
		if len(components) != 1 || first["name"] != "web" || suspended || metav1.GetControllerOf(obj) == nil || obj.GetLabels()["theirs"] != "stays" {
			return fmt.Errorf("it is %v", obj.Object)
		}
		return nil
	})
	s.box.waitReady()
	s.group.delete()
	eventually(t, "there is another group", func() error {
		obj, err := s.group.get()
		if err == nil && obj.GetUID() == s.group.id.UID {
			err = errors.New("it is the former one")
		}
		return err
	})
	waitGone(t, s.group.id)
	s.readGroup()
	s.box.waitReady()
	s.shop.answers(s.group.id.Namespace(), "preview-web-svc", "/", "changed hunter2")
}

func (s *withWorkloads) rests(t *testing.T) {
	s.box.mustPatch(`{"spec":{"suspended":true}}`)
	s.says("Ready", metav1.ConditionFalse, "SandboxPodDeleted")
	pods, err := s.shop.kube.CoreV1().Pods(s.group.id.Namespace()).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(pods.Items) > 0 {
		t.Errorf("%d pods are there, error %v", len(pods.Items), err)
	}
	s.box.mustPatch(`{"spec":{"suspended":false}}`)
	s.box.waitReady()
	s.shop.answers(s.group.id.Namespace(), "preview-web-svc", "/", "changed hunter2")
}

func (s *withWorkloads) refuses(*testing.T) {
	s.box.mustPatch(`{"spec":{"lifecycle":{"sleepAfterUnused":"1h"}}}`)
	s.says("Applied", metav1.ConditionFalse, "ActivityNotVisible")
	s.shop.answers(s.group.id.Namespace(), "preview-web-svc", "/", "changed hunter2")
	s.box.mustPatch(`{"spec":{"lifecycle":{"sleepAfterUnused":null}}}`)
	s.box.waitReady()
}
