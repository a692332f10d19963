// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/intercept"
)

// intercepted is a group with a component web, whose route has proxies in front of the environment's Service backend.
type intercepted struct {
	*routed
}

// newIntercepted makes a group of a shop whose Baseline admits proxies.
func newIntercepted(t *testing.T) *intercepted {
	t.Helper()
	provider, err := infrastructure(t)
	if err != nil {
		t.Fatal(err)
	}
	if image, _, _ := unstructured.NestedString(provider.Object, "spec", "images", intercept.Image); image == "" {
		t.Fatal("the provider of the stack has no image of proxies (spec.images.proxy)")
	}
	p := &intercepted{newRouted(t, types.NamespacedName{Name: "none"}, `"none.example.com"`, "web")}
	p.admitsProxies(true)
	if out, err := world.Grant(t.Context(), p.shop.name); err != nil || !strings.Contains(string(out), "may put proxies in front of the Services") {
		t.Fatalf("%v: %s", err, out)
	}
	return p
}

// infrastructure is the settings of the provider.
func infrastructure(t *testing.T) (*unstructured.Unstructured, error) {
	t.Helper()
	return dynamic.NewForConfigOrDie(world.Stack.KCPAdmin(world.Workspace)).Resource(baselines.GroupVersion().WithResource("infrastructureproviders")).Get(t.Context(), sandbarv1alpha1.InfrastructureProviderName, metav1.GetOptions{})
}

func (p *intercepted) admitsProxies(enabled bool) {
	p.t.Helper()
	patch := fmt.Sprintf(`{"spec":{"routing":{"proxy":{"enabled":%t}}}}`, enabled)
	if _, err := p.shop.dyn.Resource(baselines).Patch(p.t.Context(), p.shop.name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		p.t.Fatal(err)
	}
}

const proxyRule = `{name: backend, targetServiceRef: {name: backend, namespace: storefront}, backends: [{component: {name: web, port: http}}]}`

// routes creates the SandboxRoute.
func (p *intercepted) routes() {
	p.t.Helper()
	p.route = p.group.tn.create(sandboxRoutes, "SandboxRoute", "checkout", specOf(p.t, `{sandboxGroupRef: {name: checkout}, provider: proxy, rules: [`+proxyRule+`]}`))
}

// service is the live Service, without what each write changes.
func (p *intercepted) service() *corev1.Service {
	p.t.Helper()
	s, err := p.shop.kube.CoreV1().Services(p.shop.namespace).Get(p.t.Context(), "backend", metav1.GetOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
	s.ManagedFields, s.ResourceVersion = nil, ""
	return s
}

// gets waits until the Service answers requests with a baggage so.
func (p *intercepted) gets(want, baggage string) {
	p.t.Helper()
	eventually(p.t, fmt.Sprintf("%q gets %s", baggage, want), func() error {
		request := p.shop.kube.CoreV1().RESTClient().Get().Namespace(p.shop.namespace).Resource("services").Name("http:backend:http").SubResource("proxy")
		if baggage != "" {
			request = request.SetHeader("Baggage", baggage)
		}
		got, err := request.DoRaw(p.t.Context())
		if err == nil && !strings.HasPrefix(string(got), want) {
			err = fmt.Errorf("it answers %s", got)
		}
		return err
	})
}

// leftNothing waits until the Service is as before, and nothing of the proxies is there.
func (p *intercepted) leftNothing(before *corev1.Service) {
	p.t.Helper()
	eventually(p.t, "the Service has its own pods", func() error {
		if diff := cmp.Diff(before, p.service()); diff != "" {
			return errors.New(diff)
		}
		return nil
	})
	eventually(p.t, "the proxies are gone", func() error {
		_, err := p.shop.kube.AppsV1().Deployments(p.shop.namespace).Get(p.t.Context(), intercept.ProxyName("backend"), metav1.GetOptions{})
		_, behindErr := p.shop.kube.CoreV1().Services(p.shop.namespace).Get(p.t.Context(), intercept.BaselineName("backend"), metav1.GetOptions{})
		if !apierrors.IsNotFound(err) || !apierrors.IsNotFound(behindErr) {
			return errors.Join(errors.New("something is there"), err, behindErr)
		}
		return nil
	})
}

// isFreshAgain has the controllers forget how often the proxies of the Service have gone, once they are quiet: the waits that follow are minutes,
// which tests of package interception have without a cluster.
func (p *intercepted) isFreshAgain() {
	p.t.Helper()
	maps := p.shop.kube.CoreV1().ConfigMaps(p.shop.namespace)
	eventually(p.t, "the controllers have noted that the proxies are gone", func() error {
		config, err := maps.Get(p.t.Context(), intercept.RoutesConfigMap, metav1.GetOptions{})
		if err != nil {
			return err
		}
		is, here := intercept.State{}, intercept.ReadRoutes(config.Data)["backend"]
		if here != nil {
			is = here.State
		}
		if is.Encode() != (&intercept.State{Detached: is.Detached, Detaches: is.Detaches}).Encode() {
			return fmt.Errorf("the state is %s", is.Encode())
		}
		patch := fmt.Sprintf(`{"metadata":{"resourceVersion":%q},"data":{%q:null}}`, config.ResourceVersion, intercept.StateKey("backend"))
		_, err = maps.Patch(p.t.Context(), intercept.RoutesConfigMap, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		return err
	})
}

// TestAProxyInFrontOfAService: requests to a Service of the environment that carry a sandbox's ID get its copy, and all others the
// environment, by proxies that come and go with the routes that ask for them; somebody else's selector is written over once and then
// left alone (3-T8); and the Service is as it was in the end (3-T15).
func TestAProxyInFrontOfAService(t *testing.T) {
	calm(t)
	p := newIntercepted(t)
	before := p.service()
	p.routes()
	id := p.says(metav1.ConditionTrue, "RouteAttached", "are led").SandboxID
	if s := p.service(); !intercept.IsIntercepted(s) || s.Spec.ClusterIP != before.Spec.ClusterIP {
		t.Errorf("the Service is %+v", s)
	}
	own := "sandbox=" + id
	p.gets("web", own)
	p.gets(environment, "")
	p.gets(environment, "sandbox=sbx-00000000")
	p.gets("web", "a=b,"+own+";c=d")

	t.Run("the controllers' credential is worth no more to a thief", func(t *testing.T) { stealsProxies(t, p.shop.namespace) })
	t.Run("suspended its requests go to the environment", func(t *testing.T) {
		p.group.mustPatch(`{"spec":{"suspended":true}}`)
		p.says(metav1.ConditionFalse, "Suspended", "")
		p.gets(environment, own)
		p.group.mustPatch(`{"spec":{"suspended":false}}`)
		p.group.waitReady()
		p.says(metav1.ConditionTrue, "RouteAttached", "")
		p.gets("web", own)
	})
	t.Run("what the Baseline does not admit ends", func(t *testing.T) {
		p.admitsProxies(false)
		p.says(metav1.ConditionFalse, "ProviderUnavailable", "does not admit proxies")
		p.leftNothing(before)
		p.isFreshAgain()
		p.admitsProxies(true)
		p.says(metav1.ConditionTrue, "RouteAttached", "")
	})
	t.Run("a selector that somebody writes back is left alone", func(t *testing.T) {
		heal := func() {
			t.Helper()
			patch := []byte(`[{"op":"replace","path":"/spec/selector","value":{"app":"backend"}}]`)
			if _, err := p.shop.kube.CoreV1().Services(p.shop.namespace).Patch(t.Context(), "backend", types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: "argocd-controller"}); err != nil {
				t.Fatal(err)
			}
		}
		heal()
		eventually(t, "it is written over once", func() error {
			if !intercept.IsIntercepted(p.service()) {
				return errors.New("it is not")
			}
			return nil
		})
		heal()
		p.says(metav1.ConditionFalse, "OwnershipConflict", "argocd-controller")
		p.gets(environment, own)
	})
	t.Run("deleted it leaves nothing", func(t *testing.T) {
		p.route.delete()
		eventually(t, "the SandboxRoute is gone", func() error {
			if _, err := p.route.get(); !apierrors.IsNotFound(err) {
				return errors.Join(errors.New("it is there"), err)
			}
			return nil
		})
		p.leftNothing(before)
		p.route = nil
	})
}

// loadScript asks a Service 50 times a second, each time by a connection of its own, and answers how many requests have failed.
const loadScript = `const http = require("http");
let ok = 0, failed = 0, last = "";
setInterval(() => {
  const fail = (e) => { failed++; last = String(e); };
  http.get({ host: "backend", port: 80, agent: false, timeout: 10000 }, (r) => { r.resume(); r.on("end", () => r.statusCode === 200 ? ok++ : fail(r.statusCode)); r.on("error", fail); })
    .on("error", fail).on("timeout", function () { this.destroy(new Error("timeout")); });
}, 20);
http.createServer((q, r) => r.end(JSON.stringify({ ok, failed, last }))).listen(8080);`

// load is what the clients of a Service have seen.
type load struct {
	OK     int    `json:"ok"`
	Failed int    `json:"failed"`
	Last   string `json:"last"`
}

// runLoad has a pod of the environment call the Service, and returns what tells how that goes.
func (p *intercepted) runLoad() func() (load, error) {
	p.t.Helper()
	p.shop.make(deployments, p.shop.namespace, fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: load}
spec:
  selector: {matchLabels: {app: load}}
  template:
    metadata: {labels: {app: load}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: app, image: %s, command: [node, -e, %q], ports: [{name: http, containerPort: 8080}]}]
`, toolchain, loadScript))
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "load"}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "load"}, Ports: []corev1.ServicePort{{Name: "http", Port: 8080}}}}
	if _, err := p.shop.kube.CoreV1().Services(p.shop.namespace).Create(p.t.Context(), service, metav1.CreateOptions{}); err != nil {
		p.t.Fatal(err)
	}
	return func() (seen load, err error) {
		text, err := p.shop.kube.CoreV1().Services(p.shop.namespace).ProxyGet("http", "load", "http", "/", nil).DoRaw(p.t.Context())
		if err == nil {
			err = json.Unmarshal(text, &seen)
		}
		return seen, err
	}
}

// TestNoRequestIsLostByProxies: 50 requests a second through the coming of proxies, the provider's death at each moment of it, a roll-out
// of the proxies, and their going: each is answered (3-T7). A proxy that is killed loses those that it has begun, and no more.
func TestNoRequestIsLostByProxies(t *testing.T) {
	long(t, "it kills the provider for minutes")
	breaks(t)
	p := newIntercepted(t)
	before := p.service()
	seen := p.runLoad()
	answered := func(n int) load {
		t.Helper()
		var first, now load
		eventually(t, "the load begins", func() (err error) {
			first, err = seen()
			return err
		})
		eventually(t, fmt.Sprintf("%d requests are answered", n), func() (err error) {
			if now, err = seen(); err == nil && now.OK < first.OK+n {
				err = fmt.Errorf("%d are", now.OK-first.OK)
			}
			return err
		})
		return now
	}
	if now := answered(100); now.Failed > 0 {
		t.Fatalf("without proxies: %+v", now)
	}
	kills := killAtRandom(t, theProvider)
	for range 5 {
		p.routes()
		p.says(metav1.ConditionTrue, "RouteAttached", "are led")
		answered(100)
		p.route.delete()
		p.leftNothing(before)
		p.isFreshAgain()
	}
	kills.end()
	if now := answered(100); now.Failed > 0 {
		t.Errorf("%d of %d requests have failed, the last with %s", now.Failed, now.OK+now.Failed, now.Last)
	}

	p.routes()
	p.says(metav1.ConditionTrue, "RouteAttached", "are led")
	failed := answered(100).Failed
	for range 5 {
		pods, err := p.shop.kube.CoreV1().Pods(p.shop.namespace).List(t.Context(), metav1.ListOptions{LabelSelector: intercept.LabelService + "=backend"})
		if err != nil || len(pods.Items) == 0 {
			t.Fatalf("%v: there are %d proxies", err, len(pods.Items))
		}
		if err := p.shop.kube.CoreV1().Pods(p.shop.namespace).Delete(t.Context(), pods.Items[0].Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}); err != nil {
			t.Fatal(err)
		}
		answered(200)
	}
	// What a killed process has begun, and what nodes send to it until they have heard: less than a second of two proxies.
	if now := answered(100); now.Failed-failed > 5*25 {
		t.Errorf("5 proxies that were killed cost %d requests, the last with %s", now.Failed-failed, now.Last)
	}
	p.route.delete()
	p.leftNothing(before)
}
