// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
)

const (
	gatewayDomain = "gateway.test"
	// signedDomain is that of hosts that the Gateway leads to the data plane.
	signedDomain = "signed." + gatewayDomain
)

var (
	gateways   = schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1", Resource: "gateways"}
	httpRoutes = schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1", Resource: "httproutes"}
)

// TestPreviewsThroughAGateway: previews by host through a real Gateway API controller, the same Traefik that an operator
// would install: those that the graph routes to the pods, which are public, and those of the data plane, behind its link. It keeps
// 003-11 (status.preview says whether a preview can be opened, and why not), 003-15 (the grant is the graph's), 003-19 (hosts
// are derived from the base domain and the instance) and 003-36 (routes come and go with the instance).
func TestPreviewsThroughAGateway(t *testing.T) {
	long(t, "it builds Traefik")
	breaks(t) // every SandboxRunner gets a route meanwhile
	g := newGateway(t)
	t.Run("the status says where the preview is, and that it is there", g.isReady)
	t.Run("a browser opens it by that address, without a link", g.isPublic)
	t.Run("HTTP streams and WebSockets pass", g.streams)
	t.Run("the data plane's own previews pass, behind their link", g.isSigned)
	t.Run("the operator's routes beside the Gateway lead to the preview, anybody else's do not", g.isGranted)
	t.Run("a Gateway that does not take the route is the reason", g.isRefused)
	t.Run("a suspended sandbox is the reason", g.isSuspended)
	t.Run("its routes go with the sandbox", g.isGone)
}

// gateway is a stack's Gateway, and a sandbox behind it.
type gateway struct {
	address, ca string
	name        string // namespace/name
	tn          *tenant
	box         *instance
	alice       *caller
	runtime     dynamic.Interface
	browser     browser
}

// startGateway builds and starts the Gateway's controller, if need be.
func startGateway(t *testing.T) *gateway {
	t.Helper()
	out, err := world.Stack.Run(t.Context(), "gateway", gatewayDomain)
	if err != nil {
		t.Fatal(err)
	}
	g := &gateway{runtime: dynamic.NewForConfigOrDie(world.Stack.Runtime())}
	for line := range strings.Lines(string(out)) {
		switch fields := strings.Fields(line); fields[0] {
		case "gateway":
			g.name = fields[1]
		case "address":
			g.address = fields[1]
		case "ca":
			g.ca = fields[1]
		}
	}
	return g
}

func newGateway(t *testing.T) *gateway {
	t.Helper()
	g := startGateway(t)
	namespace, name, _ := strings.Cut(g.name, "/")
	g.set(t, fmt.Sprintf(`{"preview":{"baseDomain":%q,"gatewayRef":{"namespace":%q,"name":%q}}}`, gatewayDomain, namespace, name))
	g.tn = newTenant(t, "alice")
	g.alice = callAs(t, g.tn.token)
	g.box = g.tn.vite("web")
	g.box.waitReady()
	g.box.deployVite(g.alice)
	resolver := chromedp.Flag("host-resolver-rules", "MAP *."+gatewayDomain+" "+g.address)
	g.browser = newBrowserOf(t, trustingHome(t, g.ca), resolver)
	return g
}

// set changes the InfrastructureProvider until the test ends.
func (g *gateway) set(t *testing.T, spec string) {
	t.Helper()
	dyn := dynamic.NewForConfigOrDie(world.Stack.KCPAdmin(world.Workspace)).Resource(providers)
	was, err := dyn.Get(t.Context(), "default", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	n := &note{t: t, dyn: dynamic.NewForConfigOrDie(world.Stack.KCPAdmin(world.Workspace))}
	f := &fleet{note: n}
	t.Cleanup(func() {
		now, err := dyn.Get(context.Background(), "default", metav1.GetOptions{})
		if err != nil {
			t.Error(err)
			return
		}
		now.Object["spec"] = was.Object["spec"]
		if _, err := dyn.Update(context.Background(), now, metav1.UpdateOptions{}); err != nil {
			t.Errorf("taking the settings back: %v", err)
		}
	})
	f.patchProvider(spec)
	waitProvider(t, n, "PlatformPublished", metav1.ConditionTrue)
}

// preview waits until the instance's status.preview has a reason, and returns its address.
func (g *gateway) preview(t *testing.T, reason string) string {
	t.Helper()
	var url string
	eventually(t, "status.preview says "+reason, func() error {
		obj, err := g.box.get()
		if err != nil {
			return err
		}
		preview, _, _ := unstructured.NestedMap(obj.Object, "status", "preview")
		url, _ = preview["url"].(string)
		if preview["reason"] != reason || preview["ready"] != (reason == "Ready") {
			return fmt.Errorf("it is %v", preview)
		}
		return nil
	})
	return url
}

func (g *gateway) isReady(t *testing.T) {
	want := "https://" + g.box.id.Namespace() + "." + gatewayDomain + "/"
	if got := g.preview(t, "Ready"); got != want {
		t.Errorf("the preview's address is %s, want %s", got, want)
	}
}

func (g *gateway) isPublic(t *testing.T) {
	page := g.browser.open(t, g.preview(t, "Ready"))
	until(page, "document.querySelector('#message').textContent", "Hello from Vite")
	page.screenshot("gateway")
}

func (g *gateway) streams(t *testing.T) {
	page := g.browser.open(t, g.preview(t, "Ready"))
	until(page, "document.querySelector('#events').textContent.startsWith('tick ')", true)
	eval[bool](page, "window.survivor = true")
	eventually(t, "an edit arrives by hot module replacement", func() error {
		text := "edited " + randomHex(4)
		g.alice.on(t).want(http.StatusOK, http.MethodPost, g.box.base()+"/sync", editBody(t, "message.js", "export const message = '"+text+"';\n"))
		return poll(t.Context(), patience()/6, func() error {
			got, err := try[string](page, "document.querySelector('#message').textContent")
			if err == nil && got != text {
				err = fmt.Errorf("it shows %q", got)
			}
			return err
		})
	})
	if !eval[bool](page, "window.survivor === true") {
		t.Error("the page was loaded a second time")
	}
}

// isSigned: an operator who has one address for all leads the data plane's previews through the Gateway too.
func (g *gateway) isSigned(t *testing.T) {
	host := g.nodeSide(t)
	port, err := world.Relay(t.Context(), host)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := os.ReadFile(world.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	g.apply(t, fmt.Sprintf(`
apiVersion: v1
kind: ConfigMap
metadata: {name: dataplane-ca, namespace: gateway}
data: {ca.crt: %q}
---
apiVersion: v1
kind: Service
metadata: {name: dataplane, namespace: gateway}
spec: {ports: [{name: https, port: 443, protocol: TCP}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: dataplane, namespace: gateway, labels: {kubernetes.io/service-name: dataplane}}
addressType: IPv4
ports: [{name: https, port: %d, protocol: TCP}]
endpoints: [{addresses: [%s], conditions: {ready: true, serving: true}}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: BackendTLSPolicy
metadata: {name: dataplane, namespace: gateway}
spec:
  targetRefs: [{group: "", kind: Service, name: dataplane}]
  validation: {hostname: localhost, caCertificateRefs: [{group: "", kind: ConfigMap, name: dataplane-ca}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: dataplane, namespace: gateway}
spec:
  parentRefs: [{name: previews}]
  hostnames: ["*.%s"]
  rules: [{backendRefs: [{name: dataplane, port: 443}]}]
`, ca, port, host, signedDomain))
	g.set(t, fmt.Sprintf(`{"dataPlane":{"previewDomain":%q}}`, signedDomain))
	link := g.box.previewLink(g.alice.on(t), "/")
	if !strings.Contains(link, "."+signedDomain+"/") {
		t.Fatalf("the link is %s", link)
	}
	address, _, _ := strings.Cut(link, ".sandbar/enter")
	eventually(t, "without the link nobody gets in", func() error {
		code, body, err := g.get(t, address)
		if err == nil && code != http.StatusUnauthorized {
			err = fmt.Errorf("%d: %s", code, body)
		}
		return err
	})
	page := g.browser.open(t, link)
	until(page, "document.querySelector('#message') !== null", true)
	if got := eval[string](page, "location.href"); got != address {
		t.Errorf("the page is at %s, want %s", got, address)
	}
	until(page, "document.querySelector('#events').textContent.startsWith('tick ')", true)
	page.screenshot("gateway-signed")
}

// isGranted: the grant in the placement is for the Gateway's namespace alone.
func (g *gateway) isGranted(t *testing.T) {
	for namespace, reason := range map[string]string{"gateway": "ResolvedRefs", "default": "RefNotPermitted"} {
		g.apply(t, fmt.Sprintf(`
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: short, namespace: %[1]s}
spec:
  parentRefs: [{name: previews, namespace: gateway}]
  hostnames: [%[1]s-short.%[2]s]
  rules:
  - filters: [{type: URLRewrite, urlRewrite: {hostname: localhost}}]
    backendRefs: [{name: preview, namespace: %[3]s, port: 80}]
`, namespace, gatewayDomain, g.box.id.Namespace()))
		eventually(t, "the route of "+namespace+" is "+reason, func() error {
			route, err := g.runtime.Resource(httpRoutes).Namespace(namespace).Get(t.Context(), "short", metav1.GetOptions{})
			if err != nil {
				return err
			}
			parents, _, _ := unstructured.NestedSlice(route.Object, "status", "parents")
			if said := fmt.Sprint(parents); !strings.Contains(said, "reason:"+reason) {
				return fmt.Errorf("it says %s", said)
			}
			return nil
		})
		eventually(t, "what the route of "+namespace+" shows", func() error {
			code, body, err := g.get(t, "https://"+namespace+"-short."+gatewayDomain+"/")
			if shown := code == http.StatusOK && strings.Contains(body, "vite"); err == nil && shown != (reason == "ResolvedRefs") {
				err = fmt.Errorf("%d: %s", code, body)
			}
			return err
		})
	}
}

func (g *gateway) isRefused(t *testing.T) {
	g.admit(t, "Same")
	t.Cleanup(func() { g.admit(t, "All") })
	g.preview(t, "NotAllowedByListeners")
	// Traefik tells of a route before its proxy has the new table.
	eventually(t, "the preview is not there", func() error {
		code, body, err := g.get(t, "https://"+g.box.id.Namespace()+"."+gatewayDomain+"/")
		if err == nil && code == http.StatusOK {
			err = fmt.Errorf("%d: %s", code, body)
		}
		return err
	})
	g.admit(t, "All")
	g.preview(t, "Ready")
}

func (g *gateway) isSuspended(t *testing.T) {
	g.box.patch(t, map[string]any{"suspended": true})
	g.preview(t, "Suspended")
	g.box.patch(t, map[string]any{"suspended": false})
	g.preview(t, "Ready")
}

// isGone: the Gateway has a route for the sandbox's host while there is one, and none for it afterwards.
func (g *gateway) isGone(t *testing.T) {
	routes := func() int {
		list, err := g.runtime.Resource(httpRoutes).Namespace(g.box.id.Namespace()).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return len(list.Items)
	}
	if routes() == 0 {
		t.Error("the sandbox has no route")
	}
	g.box.delete()
	waitGone(t, g.box.id)
	if n := routes(); n != 0 {
		t.Errorf("the sandbox is gone, and %d routes are left", n)
	}
	page := g.browser.open(t, "https://"+g.box.id.Namespace()+"."+gatewayDomain+"/")
	until(page, "document.body.textContent.includes('404 page not found')", true) // in Traefik's words
}

// admit sets from which namespaces the Gateway takes routes.
func (g *gateway) admit(t *testing.T, from string) {
	t.Helper()
	patch := `[{"op":"replace","path":"/spec/listeners/0/allowedRoutes/namespaces/from","value":"` + from + `"}]`
	if _, err := g.runtime.Resource(gateways).Namespace("gateway").Patch(context.WithoutCancel(t.Context()), "previews", types.JSONPatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Error(err)
	}
}

// nodeSide is the address of this machine that pods of the node reach.
func (g *gateway) nodeSide(t *testing.T) string {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "udp", net.JoinHostPort(g.address, "443")) // sends nothing
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	host, _, err := net.SplitHostPort(conn.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	return host
}

// get asks for an address as a browser without a session does, through the Gateway.
func (g *gateway) get(t *testing.T, url string) (code int, body string, err error) {
	t.Helper()
	return g.request(t, url, http.Header{"Accept": {"text/html"}})
}

// request asks for an address with these headers, through the Gateway.
func (g *gateway) request(t *testing.T, url string, header http.Header) (code int, body string, err error) {
	t.Helper()
	pem, err := os.ReadFile(g.ca)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	client := &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
			DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, network, net.JoinHostPort(g.address, "443"))
			},
		},
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if header != nil {
		req.Header = header
	}
	res, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	return res.StatusCode, string(data), err
}

// apply makes objects on the runtime cluster until the test ends.
func (g *gateway) apply(t *testing.T, manifests string) {
	t.Helper()
	for document := range strings.SplitSeq(manifests, "\n---\n") {
		obj := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &obj.Object); err != nil {
			t.Fatal(err)
		}
		gvr := schema.GroupVersionResource{Group: obj.GroupVersionKind().Group, Version: obj.GroupVersionKind().Version, Resource: resourceOf(obj.GetKind())}
		to := g.runtime.Resource(gvr).Namespace(obj.GetNamespace())
		if _, err := to.Apply(t.Context(), obj.GetName(), obj, metav1.ApplyOptions{FieldManager: "e2e", Force: true}); err != nil {
			t.Fatalf("making the %s %s: %v", obj.GetKind(), obj.GetName(), err)
		}
		t.Cleanup(func() { _ = to.Delete(context.Background(), obj.GetName(), metav1.DeleteOptions{}) })
	}
}

// resourceOf is the resource of one of the kinds that apply makes.
func resourceOf(kind string) string {
	if kind == "BackendTLSPolicy" {
		return "backendtlspolicies"
	}
	return strings.ToLower(kind) + "s"
}
