// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/dataplane/fixture"
	"github.com/sandbar-dev/sandbar/dataplane/locate"
	"github.com/sandbar-dev/sandbar/dataplane/record"
	"github.com/sandbar-dev/sandbar/dataplane/refusal"
	"github.com/sandbar-dev/sandbar/dataplane/upstream"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// Invariant 1: whatever a status says, a request ends in the computed namespace, at an object
// with the instance's UID.
func TestForgedReferencesAreRefused(t *testing.T) {
	victim := placement.ID{Origin: "cluster2", UID: "uid-victim"}
	ref := func(namespace, name string) map[string]any {
		return map[string]any{"namespace": namespace, "name": name}
	}
	own := demoID.Namespace()
	unlabelled := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "unlabelled", Namespace: own}}
	foreign := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "foreign", Namespace: own, Labels: victim.Labels("sandbox-runner")}}
	foreignSecret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "foreign", Namespace: own, Labels: victim.Labels("sandbox-runner")},
		Data:       map[string][]byte{"token": []byte("stolen")},
	}
	for name, c := range map[string]struct {
		path  string
		value any
		code  int
	}{
		"a Service in another placement": {"controlServiceRef", ref(victim.Namespace(), "control"), 502},
		"a Service in kube-system":       {"controlServiceRef", ref("kube-system", "kube-dns"), 502},
		"a Service with another's UID":   {"controlServiceRef", ref(own, "foreign"), 502},
		"a Service without a label":      {"controlServiceRef", ref(own, "unlabelled"), 409},
		"a Service that does not exist":  {"controlServiceRef", ref(own, "missing"), 409},
		"a name that climbs":             {"controlServiceRef", ref(own, "../../"+victim.Namespace()+"/control"), 409},
		"a namespace that climbs":        {"controlServiceRef", ref(own+"/../"+victim.Namespace(), "control"), 502},
		"a reference that is no object":  {"controlServiceRef", "control", 502},
		"a reference that is empty":      {"controlServiceRef", map[string]any{}, 409},
		"a Secret in another placement":  {"controlSecretRef", ref(victim.Namespace(), placement.ControlSecret), 502},
		"a Secret with another's UID":    {"controlSecretRef", ref(own, "foreign"), 502},
		"a Secret of the system":         {"controlSecretRef", ref("kube-system", "bootstrap"), 502},
		"a Secret that does not exist":   {"controlSecretRef", ref(own, "missing"), 502},
		"a Secret of no name":            {"controlSecretRef", ref(own, "../"+placement.ControlSecret), 502},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, recorder(), func(s *setup) {
				s.status[c.path] = c.value
				s.objects = append(fixture.Objects(t, victim, "victim", "127.0.0.1:9"), unlabelled, foreign, foreignSecret)
			})
			res, body := w.do("POST", demo+"sync", adminToken, nil)
			wantStatus(t, res, body, c.code)
			if reason := w.lastReason(); c.code == http.StatusBadGateway && reason != refusal.CauseForeignRef {
				t.Errorf("the reason is %q", reason)
			}
		})
	}
}

// Invariant 4: an instance that this provider did not place does not exist here.
func TestAnInstanceThatIsNotPlacedHereIs404(t *testing.T) {
	w := newWorld(t, recorder())
	w.kcp.addInstance("cluster1", "default", "elsewhere", "uid-elsewhere")
	for _, verb := range []string{"log", "status"} {
		res, body := w.do("GET", "/dataplane/clusters/root:acme:dev/sandboxrunners/elsewhere/"+verb, adminToken, nil)
		wantStatus(t, res, body, http.StatusNotFound)
	}
}

func TestNamespacesThatAreNoPlacement(t *testing.T) {
	for name, labels := range map[string]map[string]string{
		"one that only has the UID":     {placement.LabelInstanceUID: "uid-demo"},
		"one of another cluster":        placement.ID{Origin: "cluster2", UID: "uid-demo"}.Labels("sandbox-runner"),
		"one of another instance's UID": placement.ID{Origin: "cluster1", UID: "uid-other"}.Labels("sandbox-runner"),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, recorder())
			ctx := context.Background()
			ns, err := w.runtime.CoreV1().Namespaces().Get(ctx, demoID.Namespace(), metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			ns.Labels = labels
			if _, err := w.runtime.CoreV1().Namespaces().Update(ctx, ns, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the change arrived", func() bool {
				res, _ := w.do("GET", demo+"log", adminToken, nil)
				return res.StatusCode == http.StatusNotFound
			})
		})
	}
}

func TestARuntimeInstanceOfAnothersUIDIsRefused(t *testing.T) {
	for name, labels := range map[string]map[string]string{
		"another's": {placement.LabelInstanceUID: "uid-other"},
		"none":      {},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, recorder())
			forged := kroInstance(demoID, "demo", demoStatus(demoID.Namespace()))
			forged.SetLabels(labels)
			k := w.server.kinds.Find(locate.Route{Group: "sandbar.dev", Version: "v1alpha1", Resource: "sandboxrunners"})
			if err := k.Instances.StoreForTest().Update(forged); err != nil {
				t.Fatal(err)
			}
			res, body := w.do("POST", demo+"sync", adminToken, nil)
			wantStatus(t, res, body, http.StatusNotFound)
		})
	}
}

func TestAnInstanceThatIsBeingDeletedIsRefused(t *testing.T) {
	now := metav1.Now()
	t.Run("when the tenant's object says so", func(t *testing.T) {
		w := newWorld(t, recorder())
		w.kcp.set(func() { w.kcp.instances["cluster1/default/sandboxrunners/demo"].DeletionTimestamp = &now })
		res, body := w.do("POST", demo+"sync", adminToken, nil)
		wantStatus(t, res, body, http.StatusNotFound)
		if res, body := w.do("GET", demo+"status", adminToken, nil); res.StatusCode != http.StatusOK {
			t.Errorf("its status is %d %s", res.StatusCode, body)
		}
	})
	t.Run("when the runtime instance does, although a cached answer says otherwise", func(t *testing.T) {
		w := newWorld(t, recorder())
		if res, _ := w.do("POST", demo+"sync", adminToken, nil); res.StatusCode != http.StatusOK {
			t.Fatalf("got %d", res.StatusCode)
		}
		deleting := kroInstance(demoID, "demo", demoStatus(demoID.Namespace()))
		deleting.SetDeletionTimestamp(&now)
		if _, err := w.kros.Resource(runners).Namespace(demoID.Namespace()).Update(context.Background(), deleting, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the deletion arrived", func() bool {
			res, _ := w.do("POST", demo+"sync", adminToken, nil)
			return res.StatusCode == http.StatusNotFound
		})
	})
}

// Delete and create again under the same name while the old placement is still there: the cached
// UID is the old one's, and must not be used once the new one shows.
func TestARecreatedInstanceIsNeverRoutedToTheOldOne(t *testing.T) {
	answers := func(word string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(word)) })
	}
	w := newWorld(t, answers("old"))
	if _, body := w.do("GET", demo+"proxy", adminToken, nil); body != "old" {
		t.Fatalf("got %q", body)
	}
	created := httptest.NewServer(answers("new"))
	defer created.Close()
	w.kcp.addInstance("cluster1", "default", "demo", "uid-new")
	w.newPlacement(placement.ID{Origin: "cluster1", UID: "uid-new"}, "demo", created.Listener.Addr().String())
	for range 3 {
		if _, body := w.do("GET", demo+"proxy", adminToken, nil); body != "new" {
			t.Fatalf("got %q", body)
		}
	}
}

// Two providers may share a runtime cluster, and offer one kind. A tenant of the other one is nobody's here: the caller
// may use the instance, which the other provider has placed on this very cluster, and this data plane must not serve it.
func TestAnotherProvidersPlacementDoesNotExist(t *testing.T) {
	w := newWorld(t, recorder())
	if res, body := w.do("GET", demo+"proxy", adminToken, nil); res.StatusCode != http.StatusOK {
		t.Fatalf("it is not served: %d %s", res.StatusCode, body)
	}
	ns, err := w.runtime.CoreV1().Namespaces().Get(t.Context(), demoID.Namespace(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ns.Annotations[placement.AnnotationProvider] = "another"
	if ns, err = w.runtime.CoreV1().Namespaces().Update(t.Context(), ns, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the placement is another provider's", func() bool {
		res, _ := w.do("GET", demo+"proxy", adminToken, nil)
		return res.StatusCode == http.StatusNotFound
	})
	for _, verb := range []string{"proxy", "log", "podlog", "echo"} {
		res, body := w.do("GET", demo+verb, adminToken, nil)
		wantStatus(t, res, body, http.StatusNotFound)
	}
	delete(ns.Annotations, placement.AnnotationProvider)
	if _, err = w.runtime.CoreV1().Namespaces().Update(t.Context(), ns, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is served again", func() bool {
		res, _ := w.do("GET", demo+"proxy", adminToken, nil)
		return res.StatusCode == http.StatusOK
	})
}

func TestAnInstanceThatIsNotReadyIs409WithHowFarItIs(t *testing.T) {
	const materializing = "the instance is not ready: wait for its condition Ready, which says why"
	for name, c := range map[string]struct {
		status map[string]any
		want   string
	}{
		"before kro has begun":   {nil, materializing},
		"while kro is composing": {map[string]any{"state": "IN_PROGRESS"}, materializing},
		"active without reference": {
			map[string]any{"state": "ACTIVE"},
			"the instance has no endpoint for this verb yet: try again in a moment, and look at its condition Ready if this lasts",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, recorder(), func(s *setup) { s.status = c.status })
			res, body := w.do("POST", demo+"sync", adminToken, nil)
			status := wantStatus(t, res, body, http.StatusConflict)
			if status.Message != c.want || res.Header.Get("Retry-After") != "1" {
				t.Errorf("got %q", status.Message)
			}
		})
	}
}

func TestStatusIsTheTenantsOwn(t *testing.T) {
	w := newWorld(t, recorder(), func(s *setup) { s.status = nil })
	res, body := w.do("GET", demo+"status", adminToken, nil)
	if res.StatusCode != http.StatusOK || body != "{\"phase\":\"Ready\"}\n" {
		t.Errorf("got %d %s", res.StatusCode, body)
	}
	if res, body := w.do("HEAD", demo+"status", adminToken, nil); res.StatusCode != http.StatusOK || body != "" {
		t.Errorf("HEAD: got %d %q", res.StatusCode, body)
	}
}

func TestTheCatalogueShowsTemplatesToMembersOnly(t *testing.T) {
	w := newWorld(t, recorder())
	w.kcp.grant("member")
	w.kcp.set(func() { w.kcp.rights["stranger"] = map[string]bool{} })
	const path = "/dataplane/clusters/root:acme:dev/templates"
	res, body := w.do("GET", path, "member", nil)
	if res.StatusCode != http.StatusOK {
		t.Fatalf("got %d %s", res.StatusCode, body)
	}
	var got catalogue
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatal(err)
	}
	want := catalogue{
		APIVersion: "dataplane.sandbar.dev/v1alpha1", Kind: "TemplateCatalogue",
		Items: []catalogueItem{{
			Name: "sandbox-runner", DisplayName: "Sandbox runner", Version: "0.1.0", InstanceAPIVersion: "sandbar.dev/v1alpha1",
			InstanceKind: "SandboxRunner", Resource: "sandboxrunners",
			Verbs: []string{"components/api/restart", "echo", "log", "podlog", "proxy", "proxy-url", "renew", "status", "sync"},
		}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for name, c := range map[string]struct {
		method, path, token string
		code                int
	}{
		"a stranger":           {"GET", path, "stranger", 403},
		"nobody":               {"GET", path, "", 401},
		"an unknown workspace": {"GET", "/dataplane/clusters/root:nowhere/templates", "member", 403},
		"a write":              {"POST", path, "member", 405},
	} {
		t.Run(name, func(t *testing.T) {
			res, body := w.do(c.method, c.path, c.token, nil)
			wantStatus(t, res, body, c.code)
		})
	}
}

func TestKindsComeAndGoWithTheirTemplates(t *testing.T) {
	w := newWorld(t, recorder())
	// The provider's fake client is reached through the server's own informer's client; the
	// handlers are called as the informer would.
	k := w.server.kinds
	find := func() *locate.Kind {
		return k.Find(locate.Route{Group: "sandbar.dev", Version: "v1alpha1", Resource: "sandboxrunners"})
	}
	before := find()
	younger := runnerTemplate()
	younger.Name, younger.Spec.DataPlane.Endpoints = "younger", map[string]sandbarv1alpha1.Endpoint{}
	younger.CreationTimestamp = metav1.Now()
	if err := k.TemplatesForTest().Add(younger); err != nil {
		t.Fatal(err)
	}
	k.RebuildForTest(t.Context())
	if got := find(); got.Template.Name != "sandbox-runner" || got.Instances != before.Instances {
		t.Errorf("the younger Template took the name over, or the informer was started anew")
	}
	for _, obj := range k.TemplatesForTest().List() {
		_ = k.TemplatesForTest().Delete(obj)
	}
	k.RebuildForTest(t.Context())
	if find() != nil {
		t.Error("the kind is still served")
	}
}

func TestCachesKeepNoMoreThanRoutingNeeds(t *testing.T) {
	w := newWorld(t, recorder())
	secret := locate.Lookup[corev1.Secret](w.server.cache.Secrets, demoID.Namespace()+"/"+placement.ControlSecret)
	if diff := cmp.Diff(map[string][]byte{"token": []byte(controlToken)}, secret.Data); diff != "" {
		t.Errorf("a Secret in memory (-want +got):\n%s", diff)
	}
	k := w.server.kinds.Find(locate.Route{Group: "sandbar.dev", Version: "v1alpha1", Resource: "sandboxrunners"})
	if len(k.Template.Spec.Graph.Raw) != 0 {
		t.Errorf("the graph is in memory: %s", k.Template.Spec.Graph.Raw)
	}
	if diff := cmp.Diff(map[string]any{"suspended": false}, k.Instances.Get(demoID.Namespace(), "demo").Object["spec"]); diff != "" {
		t.Errorf("of a runtime instance's spec in memory (-want +got):\n%s", diff)
	}
}

// FuzzResolve: whatever a runtime instance's status says, what is resolved lies in the computed
// namespace and carries the instance's UID.
func FuzzResolve(f *testing.F) {
	cache, err := locate.NewRuntimeCache(fake.NewClientset())
	if err != nil {
		f.Fatal(err)
	}
	ways, err := upstream.New(upstream.Options{Mode: upstream.Direct, Runtime: &rest.Config{}, Cache: cache, Changes: locate.NewChanges(), Metrics: record.NewMetrics("test"), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		f.Fatal(err)
	}
	other := placement.ID{Origin: "cluster2", UID: "uid-other"}
	for _, namespace := range []string{demoID.Namespace(), other.Namespace(), "kube-system"} {
		for name, id := range map[string]placement.ID{"control": demoID, "foreign": other} {
			meta := metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: id.Labels("sandbox-runner")}
			if err := cache.Services.GetStore().Add(&corev1.Service{ObjectMeta: meta}); err != nil {
				f.Fatal(err)
			}
			secret := &corev1.Secret{ObjectMeta: meta, Data: map[string][]byte{"token": []byte(namespace + "/" + name)}}
			if err := cache.Secrets.GetStore().Add(secret); err != nil {
				f.Fatal(err)
			}
		}
	}
	own := demoID.Namespace()
	f.Add(own, "control", own, "control")
	f.Add(other.Namespace(), "control", own, "control")
	f.Add(own, "foreign", other.Namespace(), "foreign")
	f.Add(own+"/..", "../kube-system/control", "", "control")
	f.Fuzz(func(t *testing.T, serviceNamespace, service, secretNamespace, secret string) {
		at := &locate.Place{ID: demoID.Locate(), Kind: &locate.Kind{Template: runnerTemplate()}, Instance: kroInstance(demoID, "demo", map[string]any{
			"controlServiceRef": map[string]any{"namespace": serviceNamespace, "name": service},
			"controlSecretRef":  map[string]any{"namespace": secretNamespace, "name": secret},
		})}
		endpoint := at.Kind.DataPlane().Endpoints["sync"]
		to, refused := (&locate.Placer{Cache: cache}).Resolve(at, locate.Route{Verb: "sync"}, endpoint)
		if refused != nil {
			return
		}
		if to.Namespace != own || to.Service != "control" {
			t.Errorf("resolved to %s/%s", to.Namespace, to.Service)
		}
		if of, ok := locate.ReadHost(to.Destination().Host()); !ok || of != to.Destination() {
			t.Errorf("the destination %v is read as %v", to.Destination(), of)
		}
		if current, err := ways.TokensForTest(to.Destination()); err == nil && !slices.Equal(current, []string{own + "/control"}) {
			t.Errorf("the Secret %s leads to %q", to.Secret, current)
		}
	})
}
