// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/limitstable"
)

const baselinesPath = "/dataplane/clusters/root:acme:dev/baselines"

// offeredTo is a Baseline of one workload for the workspaces with some paths; one that ends with a star is recursive.
func offeredTo(name string, paths ...string) *sandbarv1alpha1.Baseline {
	b := &sandbarv1alpha1.Baseline{
		TypeMeta:   metav1.TypeMeta{APIVersion: "sandbar.dev/v1alpha1", Kind: "Baseline"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 3},
		Spec: sandbarv1alpha1.BaselineSpec{
			DisplayName: "The shop", Description: "As in staging.",
			Namespaces: []sandbarv1alpha1.BaselineNamespace{{Name: "shop-staging", As: "storefront"}, {Name: "mail"}},
		},
		Status: sandbarv1alpha1.BaselineStatus{
			ObservedGeneration: 3, WorkloadsFound: 1, ServicesFound: 1,
			Conditions: []metav1.Condition{{Type: sandbarv1alpha1.BaselineReady, Status: metav1.ConditionTrue, Reason: "Ready", Message: "in shop-staging"}},
			Workloads: []sandbarv1alpha1.BaselineWorkload{{
				Kind: "Deployment", Namespace: "shop-staging", Name: "frontend", Replicas: 2, Containers: []sandbarv1alpha1.BaselineContainer{{
					Name: "app", Image: "ghcr.io/acme/frontend:1.4", Ports: []sandbarv1alpha1.BaselinePort{{Name: "http", Port: 8080, Protocol: "TCP"}},
				}},
			}},
			Services: []sandbarv1alpha1.BaselineService{{Namespace: "mail", Name: "smtp", Ports: []sandbarv1alpha1.BaselinePort{{Port: 25}}}},
		},
	}
	b.Spec.Routing.Proxy.Enabled = true
	b.Spec.Routing.Gateway = sandbarv1alpha1.BaselineGatewayRouting{ParentRefs: []sandbarv1alpha1.BaselineParent{{Namespace: "edge", Name: "public"}}, Hostnames: []string{"*.example.com"}}
	for _, path := range paths {
		path, recursive := strings.CutSuffix(path, "*")
		b.Spec.Workspaces = append(b.Spec.Workspaces, sandbarv1alpha1.BaselineWorkspace{Path: path, Recursive: recursive})
	}
	return b
}

// offering is a world with Baselines in the provider workspace, and a member of the workspace root:acme:dev.
func offering(t *testing.T, all ...*sandbarv1alpha1.Baseline) *world {
	t.Helper()
	w := newWorld(t, recorder(), func(s *setup) {
		for _, b := range all {
			s.provider = append(s.provider, runtime.Object(b))
		}
	})
	w.kcp.grant("member")
	w.kcp.set(func() { w.kcp.rights["stranger"] = map[string]bool{} })
	eventually(t, "the Baselines and bindings are known", func() bool {
		return w.server.handler.baselines.known() && len(w.server.handler.baselines.informer.GetStore().ListKeys()) == len(all) && w.server.bound.Synced()
	})
	return w
}

// offered are the names of the Baselines that a caller sees at a path.
func (w *world) offered(path, token string) string {
	w.t.Helper()
	res, body := w.do("GET", path, token, nil)
	if res.StatusCode != http.StatusOK {
		return strconv.Itoa(res.StatusCode)
	}
	var got baselineCatalogue
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		w.t.Fatal(err)
	}
	var names []string
	for _, item := range got.Items {
		names = append(names, item.Name)
	}
	return strings.Join(names, " ")
}

func TestTheCatalogueShowsBaselinesByTheirAliases(t *testing.T) {
	w := offering(t, offeredTo("shop", "root:acme:dev"))
	res, body := w.do("GET", baselinesPath, "member", nil)
	if res.StatusCode != http.StatusOK {
		t.Fatalf("got %d %s", res.StatusCode, body)
	}
	want := `{"apiVersion":"dataplane.sandbar.dev/v1alpha1","kind":"BaselineCatalogue","items":[{"name":"shop","displayName":"The shop",` +
		`"description":"As in staging.","aliases":["storefront","mail"],"disclosure":"Summary","ready":true,"workloadsFound":1,"servicesFound":1,` +
		`"workloads":[{"apiVersion":"apps/v1","kind":"Deployment","namespace":"storefront","name":"frontend","replicas":2,` +
		`"containers":[{"name":"app","image":"ghcr.io/acme/frontend:1.4","ports":[{"name":"http","port":8080,"protocol":"TCP"}]}]}],` +
		`"services":[{"namespace":"mail","name":"smtp","ports":[{"port":25}]}],"routing":{"gateways":[{"namespace":"edge","name":"public"}],"hostnames":["*.example.com"],"proxy":true}}]}` + "\n"
	if diff := cmp.Diff(want, body); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	// Neither where it is on the runtime cluster, nor who else sees it.
	for _, secret := range []string{"shop-staging", "root:"} {
		if strings.Contains(body, secret) {
			t.Errorf("the answer has %q", secret)
		}
	}
	if res, body := w.do("HEAD", baselinesPath, "member", nil); res.StatusCode != http.StatusOK || body != "" {
		t.Errorf("HEAD: got %d %q", res.StatusCode, body)
	}
	w.wantSeries(`sandbar_dataplane_requests_total{code="200",resource="baselines",verb="catalogue"} 2.0`)
}

func TestAWorkspaceSeesTheBaselinesThatAdmitItAndNoOthers(t *testing.T) {
	w := offering(t, offeredTo("exact", "root:acme:dev"), offeredTo("parent", "root:acme"), offeredTo("below", "root:acme*"),
		offeredTo("stranger", "root:acme:dev-two*", "root:acme:de*"), offeredTo("nobody"), offeredTo("elsewhere", "root:other*", "root:acme:ops"))
	for name, c := range map[string]struct{ path, token, want string }{
		"by its path":                          {baselinesPath, "member", "below exact"},
		"by its logical cluster's name":        {"/dataplane/clusters/cluster1/baselines", "member", "below exact"},
		"one by its name":                      {baselinesPath + "?name=exact", "member", "exact"},
		"one of another workspace by its name": {baselinesPath + "?name=elsewhere", "member", ""},
		"one that is not there by its name":    {baselinesPath + "?name=nosuch", "member", ""},
		"a workspace in the query is nothing":  {baselinesPath + "?workspace=root:other", "member", "below exact"},
		"a stranger to the workspace":          {baselinesPath, "stranger", "403"},
		"without a credential":                 {baselinesPath, "", "401"},
		"a workspace that is not there":        {"/dataplane/clusters/root:other/baselines", "member", "403"},
		"something behind it":                  {baselinesPath + "/exact", "member", "400"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := w.offered(c.path, c.token); got != c.want {
				t.Errorf("it sees %q, want %q", got, c.want)
			}
		})
	}
	res, body := w.do("POST", baselinesPath, "member", nil)
	wantStatus(t, res, body, http.StatusMethodNotAllowed)
	_, absent := w.do("GET", baselinesPath+"?name=nosuch", "member", nil)
	if _, hidden := w.do("GET", baselinesPath+"?name=elsewhere", "member", nil); hidden != absent {
		t.Errorf("one that is there and not offered is answered %s, and one that is not there %s", hidden, absent)
	}
}

// The path is that of the binding, which kcp writes: not of the request, nor of anything that is not bound.
func TestAWorkspaceWithoutABindingSeesNoBaseline(t *testing.T) {
	w := offering(t, offeredTo("all", "root*"))
	if got := w.offered(baselinesPath, "member"); got != "all" {
		t.Fatalf("it sees %q", got)
	}
	w.kcp.set(func() { w.kcp.clusters["root:acme:unbound"] = "cluster2" })
	if got := w.offered("/dataplane/clusters/root:acme:unbound/baselines", "member"); got != "" {
		t.Errorf("without a binding it sees %q", got)
	}
	w.kcp.unbind("cluster1")
	eventually(t, "a binding that is gone ends it", func() bool { return w.offered(baselinesPath, "member") == "" })
}

// The attack: a binding that has got the path of another workspace onto it, and a caller of that workspace who names it by
// its logical cluster.
func TestAPathThatTwoWorkspacesHaveShowsNothing(t *testing.T) {
	w := offering(t, offeredTo("exact", "root:acme:dev"), offeredTo("evil", "root:evil"))
	w.kcp.set(func() { w.kcp.clusters["cluster9"] = "cluster9" })
	w.kcp.bind("cluster9", fakeBinding{path: "root:evil", phase: "Bound", accepted: true})
	eventually(t, "the other binding is seen", func() bool { return w.offered("/dataplane/clusters/cluster9/baselines", "member") == "evil" })
	w.kcp.bind("cluster9", fakeBinding{path: "root:acme:dev", phase: "Bound", accepted: true})
	eventually(t, "the path is disputed", func() bool { return w.offered("/dataplane/clusters/cluster9/baselines", "member") == "" })
	for range 20 {
		if got := w.offered("/dataplane/clusters/cluster9/baselines", "member"); got != "" {
			t.Fatalf("it sees %q", got)
		}
	}
}

func TestWhatAnOperatorTakesOutIsGoneAtOnce(t *testing.T) {
	narrowed := offeredTo("shop", "root:acme:dev")
	narrowed.Generation++ // and the controllers have not looked yet
	if item := baselineItemOf(narrowed); len(item.Workloads)+len(item.Services) > 0 || item.WorkloadsFound > 0 || item.Ready {
		t.Errorf("of another spec: %+v", item)
	}
	left := offeredTo("shop", "root:acme:dev")
	left.Spec.Namespaces = left.Spec.Namespaces[1:]
	if item := baselineItemOf(left); len(item.Workloads) > 0 || len(item.Services) != 1 {
		t.Errorf("of a namespace that was taken out: %+v", item)
	}
	w := offering(t, offeredTo("shop", "root:acme:dev"))
	if err := w.provider.Resource(baselinesResource).Delete(t.Context(), "shop", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a Baseline that is gone is not offered", func() bool { return w.offered(baselinesPath, "member") == "" })
}

func TestAnAnswerIsBounded(t *testing.T) {
	var items []baselineItem
	for n := range 3 {
		item := baselineItemOf(offeredTo(fmt.Sprintf("b%d", n), "root:acme:dev"))
		items = append(items, item)
	}
	encoded, err := json.Marshal(items[0])
	if err != nil {
		t.Fatal(err)
	}
	got := fitting(items, 2*len(encoded)+10)
	if len(got) != 3 || len(got[1].Workloads) != 1 || len(got[2].Workloads)+len(got[2].Services) != 0 || got[2].WorkloadsFound != 1 {
		t.Errorf("%+v", got)
	}
}

// Those that the schema has, install TestASchemaRefusesABaselineThatCannotBe tries.
func TestTheTableOfLimitsHasTheNumbersOfBaselines(t *testing.T) {
	limitstable.Check(t, "../docs/limits.md", "Baselines", true,
		limitstable.Limit{Name: "namespaces of a Baseline", Number: "32"},
		limitstable.Limit{Name: "workspaces of a Baseline", Number: "256"},
		limitstable.Limit{Name: "`workloads.names`, `services.names`", Number: "200 each"},
		limitstable.Limit{
			Name:   "workloads, and Services, that a status lists",
			Number: fmt.Sprintf("%d each, %s in all", sandbarv1alpha1.MaxBaselineWorkloads, limitstable.Bytes(sandbarv1alpha1.MaxBaselineStatusBytes)),
		},
		limitstable.Limit{Name: "the reference of an image in a status", Number: fmt.Sprintf("%d characters", sandbarv1alpha1.MaxBaselineImage)},
		limitstable.Limit{Name: "the catalogue that a workspace gets", Number: limitstable.Bytes(maxBaselineCatalogue)},
	)
}
