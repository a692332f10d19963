// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package baseline

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// objectOf reads an object of the runtime cluster.
func objectOf(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

// kept is what the informers keep of an object.
func kept(t testing.TB, text string) *item {
	t.Helper()
	return keep(objectOf(t, text))
}

const (
	frontend = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: frontend, namespace: storefront, labels: {tier: web}}
spec:
  replicas: 2
  template:
    spec:
      initContainers: [{name: setup, image: setup:1}]
      containers:
      - name: app
        image: ghcr.io/acme/frontend:1.4
        env: [{name: PASSWORD, value: hunter2}]
        ports: [{name: http, containerPort: 8080, protocol: TCP}]
      - {name: sidecar, image: "sidecar:1"}`
	api = `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: api, namespace: storefront, labels: {tier: api}}
spec: {template: {spec: {containers: [{name: app, image: "api:1"}]}}}`
	worker = `
apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata: {name: worker, namespace: storefront}
spec: {replicas: 3, workloadRef: {apiVersion: apps/v1, kind: Deployment, name: frontend}}`
	odd = `
apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata: {name: odd, namespace: storefront}
spec: {replicas: many}`
	service = `
apiVersion: v1
kind: Service
metadata: {name: frontend, namespace: storefront, labels: {tier: web}}
spec: {clusterIP: 10.0.0.1, ports: [{name: http, port: 80, targetPort: 8080, protocol: TCP}]}`
)

// storefront is a view of a namespace with one workload of each kind, and a Service.
func storefront(t testing.TB) view {
	return view{state: read, services: []*item{kept(t, service)}, workloads: map[sandbarv1alpha1.BaselineWorkloadKind][]*item{
		sandbarv1alpha1.BaselineDeployment:  {kept(t, frontend)},
		sandbarv1alpha1.BaselineStatefulSet: {kept(t, api)},
		sandbarv1alpha1.BaselineRollout:     {kept(t, worker), kept(t, odd)},
	}}
}

func TestWhatIsKeptOfAWorkloadIsWhatTenantsMaySee(t *testing.T) {
	b := baselineOf("storefront")
	observe(b, map[string]view{"storefront": storefront(t)}, true)
	port := []sandbarv1alpha1.BaselinePort{{Name: "http", Port: 8080, Protocol: "TCP"}}
	web := []sandbarv1alpha1.BaselineContainer{{Name: "app", Image: "ghcr.io/acme/frontend:1.4", Ports: port}, {Name: "sidecar", Image: "sidecar:1"}}
	want := sandbarv1alpha1.BaselineStatus{
		ObservedGeneration: 1, WorkloadsFound: 4, ServicesFound: 1, Conditions: b.Status.Conditions,
		Workloads: []sandbarv1alpha1.BaselineWorkload{
			{Kind: "Deployment", Namespace: "storefront", Name: "frontend", Replicas: 2, Containers: web},
			{Kind: "StatefulSet", Namespace: "storefront", Name: "api", Replicas: 1, Containers: []sandbarv1alpha1.BaselineContainer{{Name: "app", Image: "api:1"}}},
			{Kind: "Rollout", Namespace: "storefront", Name: "odd"},
			{Kind: "Rollout", Namespace: "storefront", Name: "worker", Replicas: 3, Containers: web},
		},
		Services: []sandbarv1alpha1.BaselineService{{Namespace: "storefront", Name: "frontend", Ports: []sandbarv1alpha1.BaselinePort{{Name: "http", Port: 80, Protocol: "TCP"}}}},
	}
	if diff := cmp.Diff(want, b.Status); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if text := fmt.Sprintf("%+v %+v", *kept(t, frontend), b.Status); strings.Contains(text, "hunter2") || strings.Contains(text, "setup") {
		t.Errorf("an environment or an init container is kept: %s", text)
	}
}

// baselineOf is one of some namespaces, of generation 1.
func baselineOf(names ...string) *sandbarv1alpha1.Baseline {
	b := &sandbarv1alpha1.Baseline{ObjectMeta: metav1.ObjectMeta{Name: "shop", Generation: 1}}
	for _, name := range names {
		b.Spec.Namespaces = append(b.Spec.Namespaces, sandbarv1alpha1.BaselineNamespace{Name: name})
	}
	return b
}

func TestABaselineSaysWhatIsWrongAndWhatToDo(t *testing.T) {
	read := storefront(t)
	labels := func(key, value string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
	}
	for name, c := range map[string]struct {
		spec     func(*sandbarv1alpha1.BaselineSpec)
		views    map[string]view
		rollouts bool
		found    string // status and reason
		says     string
		// lists are the names of the workloads, and behind a bar of the Services.
		lists string
	}{
		"all is there": {
			views: map[string]view{"storefront": read}, rollouts: true, found: "True Found", says: "workloads: 4, Services: 1", lists: "frontend api odd worker|frontend",
		},
		"a selector": {
			spec:  func(s *sandbarv1alpha1.BaselineSpec) { s.Workloads.Selector = labels("tier", "api") },
			views: map[string]view{"storefront": read}, rollouts: true, found: "True Found", lists: "api|frontend",
		},
		"names and a selector": {
			spec: func(s *sandbarv1alpha1.BaselineSpec) {
				s.Workloads.Names, s.Workloads.Selector = []string{"api", "frontend"}, labels("tier", "web")
			},
			views: map[string]view{"storefront": read}, rollouts: true, found: "False SelectorMatchesNothing", says: "chooses no workload api: correct its names, selector or kinds", lists: "frontend|frontend",
		},
		"kinds": {
			spec: func(s *sandbarv1alpha1.BaselineSpec) {
				s.Workloads.Kinds = []sandbarv1alpha1.BaselineWorkloadKind{"StatefulSet"}
			},
			views: map[string]view{"storefront": read}, found: "True Found", lists: "api|frontend",
		},
		"a selector that matches nothing": {
			spec:  func(s *sandbarv1alpha1.BaselineSpec) { s.Workloads.Selector = labels("tier", "none") },
			views: map[string]view{"storefront": read}, rollouts: true, found: "False SelectorMatchesNothing", says: "correct its selector or kinds, or deploy one", lists: "|frontend",
		},
		"a Service that is not there": {
			spec:  func(s *sandbarv1alpha1.BaselineSpec) { s.Services.Names = []string{"frontend", "nosuch"} },
			views: map[string]view{"storefront": read}, rollouts: true, found: "False SelectorMatchesNothing", says: "spec.services chooses no Service nosuch", lists: "frontend api odd worker|frontend",
		},
		"a selector that is none": {
			spec: func(s *sandbarv1alpha1.BaselineSpec) {
				s.Workloads.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Is"}}}
			},
			views: map[string]view{"storefront": read}, rollouts: true, found: "False InvalidSelector", says: "spec.workloads.selector", lists: "|",
		},
		"a namespace that is not there": {
			views: map[string]view{"storefront": {state: missing}}, found: "False NamespaceMissing",
			says: "the runtime cluster has no namespace storefront: create it, or take it out of spec.namespaces", lists: "|",
		},
		"a namespace that may not be read": {
			views: map[string]view{"storefront": {state: forbidden}}, found: "False NotAllowed",
			says: "as an administrator of the runtime cluster, run sandbar-provider baseline grant shop", lists: "|",
		},
		"one of two may not be read": {
			spec: func(s *sandbarv1alpha1.BaselineSpec) {
				s.Namespaces = append(s.Namespaces, baselineOf("payments").Spec.Namespaces...)
			},
			views: map[string]view{"storefront": read, "payments": {state: forbidden}}, rollouts: true,
			found: "False NotAllowed", says: "namespace payments:", lists: "frontend api odd worker|frontend",
		},
		"many that are not there are counted": {
			spec: func(s *sandbarv1alpha1.BaselineSpec) {
				s.Namespaces = baselineOf("a", "b", "c", "d", "e", "f", "g").Spec.Namespaces
			},
			views: map[string]view{
				"a": {state: missing}, "b": {state: missing}, "c": {state: missing}, "d": {state: missing}, "e": {state: missing}, "f": {state: missing}, "g": {state: missing},
			},
			found: "False NamespaceMissing", says: "namespace a, b, c, d, e and 2 more:", lists: "|",
		},
		"Rollouts that are wanted and not served": {
			spec: func(s *sandbarv1alpha1.BaselineSpec) {
				s.Workloads.Kinds = []sandbarv1alpha1.BaselineWorkloadKind{"Rollout", "Deployment"}
			},
			views: map[string]view{"storefront": {state: 1, workloads: read.workloads}}, found: "False KindNotServed", says: "install Argo Rollouts", lists: "frontend odd worker|",
		},
		"Rollouts that are not served and not asked for": {
			views: map[string]view{"storefront": read}, found: "True Found", lists: "frontend api odd worker|frontend",
		},
		// The CRD refuses it; a CRD can be edited.
		"a namespace of the system": {
			spec:  func(s *sandbarv1alpha1.BaselineSpec) { s.Namespaces = baselineOf("kube-system").Spec.Namespaces },
			views: map[string]view{}, found: "False NamespaceReserved", says: "kube-system cannot be part of a Baseline", lists: "|",
		},
		"nobody has looked yet": {
			views: map[string]view{}, found: "Unknown Looking", lists: "|",
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := baselineOf("storefront")
			if c.spec != nil {
				c.spec(&b.Spec)
			}
			observe(b, c.views, c.rollouts)
			found := meta.FindStatusCondition(b.Status.Conditions, sandbarv1alpha1.BaselineFound)
			ready := meta.FindStatusCondition(b.Status.Conditions, sandbarv1alpha1.BaselineReady)
			if found == nil || ready == nil || ready.Status != found.Status || ready.ObservedGeneration != 1 {
				t.Fatalf("%+v", b.Status.Conditions)
			}
			if got := string(found.Status) + " " + found.Reason; got != c.found || !strings.Contains(found.Message, c.says) {
				t.Errorf("%s: %s", got, found.Message)
			}
			var workloads, services []string
			for _, w := range b.Status.Workloads {
				workloads = append(workloads, w.Name)
			}
			for _, s := range b.Status.Services {
				services = append(services, s.Name)
			}
			if got := strings.Join(workloads, " ") + "|" + strings.Join(services, " "); got != c.lists {
				t.Errorf("it lists %s, want %s", got, c.lists)
			}
		})
	}
}

// A restart of the controllers must not empty the catalogue, and a namespace that was taken out must not stay in it.
func TestWhatWasFoundHoldsForTheSpecThatItWasFoundFor(t *testing.T) {
	b := baselineOf("storefront")
	observe(b, map[string]view{"storefront": storefront(t)}, true)
	before := b.Status.DeepCopy()
	observe(b, map[string]view{}, false)
	if diff := cmp.Diff(before, &b.Status); diff != "" {
		t.Errorf("after a restart:\n%s", diff)
	}
	b.Generation++
	observe(b, map[string]view{}, false)
	if len(b.Status.Workloads)+len(b.Status.Services) > 0 || b.Status.WorkloadsFound > 0 || b.Status.ObservedGeneration != 2 {
		t.Errorf("of another spec: %+v", b.Status)
	}
}

func TestAStatusFitsIntoEtcd(t *testing.T) {
	v := view{state: read, workloads: map[sandbarv1alpha1.BaselineWorkloadKind][]*item{}}
	for n := range 1000 {
		i := &item{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("w%04d", n), Namespace: "storefront"}}
		v.workloads[sandbarv1alpha1.BaselineDeployment] = append(v.workloads[sandbarv1alpha1.BaselineDeployment], i)
	}
	b := baselineOf("storefront")
	observe(b, map[string]view{"storefront": v}, true)
	if len(b.Status.Workloads) != sandbarv1alpha1.MaxBaselineWorkloads || b.Status.WorkloadsFound != 1000 || b.Status.Workloads[199].Name != "w0199" {
		t.Errorf("%d of %d are listed", len(b.Status.Workloads), b.Status.WorkloadsFound)
	}
	if found := meta.FindStatusCondition(b.Status.Conditions, sandbarv1alpha1.BaselineFound); !strings.Contains(found.Message, "the first 200 workloads are listed") {
		t.Error(found.Message)
	}
	for _, i := range v.workloads[sandbarv1alpha1.BaselineDeployment] {
		for range 50 {
			i.containers = append(i.containers, sandbarv1alpha1.BaselineContainer{Name: "app", Image: strings.Repeat("x", sandbarv1alpha1.MaxBaselineImage)})
		}
	}
	observe(b, map[string]view{"storefront": v}, true)
	encoded, err := json.Marshal(b.Status)
	if err != nil || len(encoded) > sandbarv1alpha1.MaxBaselineStatusBytes+8<<10 || len(b.Status.Workloads) == 0 {
		t.Errorf("%d bytes, %d workloads (%v)", len(encoded), len(b.Status.Workloads), err)
	}
}

func TestAnImageIsCutBetweenCharacters(t *testing.T) {
	for text, want := range map[string]string{"abc": "abc", "abcd": "abcd", "abcde": "abcd", "abcé": "abc"} {
		if got := cut(text, 4); got != want {
			t.Errorf("%q is cut to %q, want %q", text, got, want)
		}
	}
}
