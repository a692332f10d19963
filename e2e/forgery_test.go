// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// TestForgedReferences is promise 3: nothing that a tenant can write, and nothing that it can
// put into a path, decides where a request goes.
func TestForgedReferences(t *testing.T) {
	breaks(t)
	tn := newTenant(t, "alice")
	box := tn.runner("web")
	box.waitReady()
	c := callAs(t, tn.token)
	box.deploy(c, "genuine")

	t.Run("a cluster-admin of the workspace cannot write status", func(t *testing.T) {
		c := c.on(t)
		patch := []byte(`{"status":{"controlServiceRef":{"name":"kubernetes","namespace":"default"},"dataPlane":{"url":"https://evil.test"}}}`)
		_, err := tn.dyn.Resource(runners).Namespace("default").Patch(t.Context(), "web", types.MergePatchType, patch, metav1.PatchOptions{}, "status")
		if !apierrors.IsForbidden(err) {
			t.Errorf("patching status: %v, want forbidden", err)
		}
		got, err := tn.dyn.Resource(runners).Namespace("default").Patch(t.Context(), "web", types.MergePatchType, patch, metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if url, _, _ := unstructured.NestedString(got.Object, "status", "dataPlane", "url"); strings.Contains(url, "evil") {
			t.Error("a status smuggled into a write of the object was kept")
		}
		box.waitAnswer(c, "genuine")
	})
	t.Run("labels and annotations of the tenant do not move its placement", func(t *testing.T) {
		c := c.on(t)
		patch := fmt.Sprintf(`{"metadata":{"labels":{%q:"forged",%q:"forged",%q:"forged",%q:"forged"},"annotations":{%q:"kube-system"}}}`,
			placement.LabelInstanceUID, placement.LabelCluster, placement.LabelOwnerUID, placement.LabelOwnerCluster, placement.AnnotationInstanceNamespace)
		if _, err := tn.dyn.Resource(runners).Namespace("default").Patch(t.Context(), "web", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		kube := kubernetes.NewForConfigOrDie(world.Stack.Runtime())
		ns, err := kube.CoreV1().Namespaces().Get(t.Context(), box.id.Namespace(), metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if placed, ok := placement.Of(ns); !ok || placed.ID != box.id || placed.Owner != (placement.Owner{Cluster: box.id.Origin, UID: box.id.UID}) {
			t.Errorf("the placement is %+v", placed)
		}
		box.waitAnswer(c, "genuine")
	})
	t.Run("a placement that has lost its owner's labels gets them back", func(t *testing.T) {
		c := c.on(t)
		namespaces := kubernetes.NewForConfigOrDie(world.Stack.Runtime()).CoreV1().Namespaces()
		// As a release left them that knew no owners apart.
		patch := fmt.Sprintf(`{"metadata":{"labels":{%q:null,%q:null}}}`, placement.LabelOwnerUID, placement.LabelOwnerCluster)
		if _, err := namespaces.Patch(t.Context(), box.id.Namespace(), types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		box.waitAnswer(c, "genuine")
		eventually(t, "the labels are back", func() error {
			ns, err := namespaces.Get(t.Context(), box.id.Namespace(), metav1.GetOptions{})
			if err != nil || ns.Labels[placement.LabelOwnerUID] != string(box.id.UID) || ns.Labels[placement.LabelOwnerCluster] != box.id.Origin {
				return fmt.Errorf("%v, error %w", ns.Labels, err)
			}
			return nil
		})
		box.waitAnswer(c, "genuine")
	})
	t.Run("no odd path reaches anything", func(t *testing.T) { oddPaths(t, box) })
	t.Run("a namespace that is guessed is no workspace and no instance", func(t *testing.T) {
		c := c.on(t)
		for _, path := range []string{
			"/dataplane/clusters/" + tn.path + "/namespaces/" + box.id.Namespace() + "/sandboxrunners/web/log",
			"/dataplane/clusters/" + tn.path + "/namespaces/kube-system/sandboxrunners/web/log",
			"/dataplane/clusters/" + tn.path + "/services/control/log",
			"/dataplane/clusters/" + tn.path + "/secrets/sandbar-control/log",
		} {
			if code, body := c.do(http.MethodGet, path, nil); code < 400 || code >= 500 {
				t.Errorf("%s: code %d: %s", path, code, body)
			}
		}
	})
	t.Run("a runtime instance whose status points elsewhere is refused", func(t *testing.T) { forgedRuntimeStatus(t, box, c) })
}

// TestForgedEndpoints: an attacker who can write EndpointSlices, or Pods and their status, in a placement
// cannot lead a request anywhere else: not to the data plane's own machine, not to the API server, not to another
// tenant's sandbox. Nothing but a pod of the placement even gets a connection.
func TestForgedEndpoints(t *testing.T) {
	breaks(t)
	tn, other := newTenant(t, "alice"), newTenant(t, "bob")
	box, theirs := tn.runner("web"), other.runner("web")
	box.waitReady()
	theirs.waitReady()
	c, d := callAs(t, tn.token), callAs(t, other.token)
	box.deploy(c, "alice's")
	theirs.deploy(d, "bob's")
	kube := kubernetes.NewForConfigOrDie(world.Stack.Runtime())
	own, foreign := onlyPod(t, kube, box), onlyPod(t, kube, theirs)
	trap := setTrap(t)
	ofOwn := &corev1.ObjectReference{Kind: "Pod", Namespace: own.Namespace, Name: own.Name, UID: own.UID}
	// TestAForgedEndpointGetsNoConnection of the data plane has more of them.
	for name, forged := range map[string]discoveryv1.Endpoint{
		"that is the API server":                {Addresses: []string{apiServerOf(t, kube)}, TargetRef: ofOwn},
		"that says it were the sandbox's pod":   {Addresses: []string{trap.ip}, TargetRef: ofOwn},
		"that is another's, under its own name": {Addresses: []string{foreign.Status.PodIP}, TargetRef: ofOwn},
		"that is a pod whose status lies":       lyingPod(t, kube, box, trap.ip),
	} {
		t.Run("an endpoint "+name, func(t *testing.T) {
			c := c.on(t)
			for service, port := range map[string]int32{"control": trap.port, "preview": trap.port} {
				if strings.Contains(name, "another") {
					port = map[string]int32{"control": 7070, "preview": 3000}[service]
				}
				forge(t, kube, box, service, port, forged)
			}
			for range 8 { // the true endpoint is one of two, and tried in random order
				c := callAs(t, tn.token)
				if body := c.want(http.StatusOK, http.MethodGet, box.base()+"/proxy/version", nil); !strings.Contains(body, "alice's") {
					t.Fatalf("alice reached %s", body)
				}
				c.want(http.StatusOK, http.MethodGet, box.base()+"/env", nil)
			}
			if _, err := box.exec(t.Context(), c, world.URL, "true"); err != nil {
				t.Error(err)
			}
			if n := trap.taken.Load(); n != 0 {
				t.Errorf("%d connections went into the trap", n)
			}
		})
	}
	t.Run("and where there is no other, a request is refused", func(t *testing.T) {
		c := c.on(t)
		forge(t, kube, box, "control", trap.port, discoveryv1.Endpoint{Addresses: []string{trap.ip}})
		pause(t, "kro")
		selector := []byte(`{"spec":{"selector":{"app.kubernetes.io/name":"nobody"}}}`)
		if _, err := kube.CoreV1().Services(own.Namespace).Patch(t.Context(), "control", types.MergePatchType, selector, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the forged endpoint is refused", func() error {
			code, body := c.do(http.MethodPost, box.base()+"/sync", []byte(`{}`))
			if code != http.StatusBadGateway || strings.Contains(body, trap.ip) {
				return fmt.Errorf("code %d: %s", code, body)
			}
			return nil
		})
		if n := trap.taken.Load(); n != 0 {
			t.Errorf("%d connections went into the trap", n)
		}
		metrics, err := world.Metrics(t.Context())
		if err != nil || strings.Contains(metrics, `refusals_total{reason="foreign_reference"} 0`) {
			t.Errorf("nothing is counted: %v", err)
		}
	})
}

func onlyPod(t *testing.T, kube kubernetes.Interface, box *instance) *corev1.Pod {
	t.Helper()
	pods, err := kube.CoreV1().Pods(box.id.Namespace()).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(pods.Items) != 1 {
		t.Fatalf("%d pods: %v", len(pods.Items), err)
	}
	return &pods.Items[0]
}

// apiServerOf is the address at which pods reach the API server.
func apiServerOf(t *testing.T, kube kubernetes.Interface) string {
	t.Helper()
	service, err := kube.CoreV1().Services("default").Get(t.Context(), "kubernetes", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return service.Spec.ClusterIP
}

// trap is a server of this machine's, at an address that is not loopback, which counts who comes.
type trap struct {
	ip    string
	port  int32
	taken atomic.Int64
}

func setTrap(t *testing.T) *trap {
	t.Helper()
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range addresses {
		network, ok := address.(*net.IPNet)
		if !ok || !network.IP.IsGlobalUnicast() || network.IP.To4() == nil {
			continue
		}
		l, err := net.Listen("tcp", net.JoinHostPort(network.IP.String(), "0"))
		if err != nil {
			continue
		}
		made := &trap{ip: network.IP.String(), port: int32(l.Addr().(*net.TCPAddr).Port)}
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				made.taken.Add(1)
				conn.Close()
			}
		}()
		return made
	}
	t.Fatal("this machine has no address but loopback")
	return nil
}

// forge adds a slice with an endpoint to a Service of the sandbox's, until the test ends.
func forge(t *testing.T, kube kubernetes.Interface, box *instance, service string, port int32, endpoint discoveryv1.Endpoint) {
	t.Helper()
	ready := true
	endpoint.Conditions.Ready = &ready
	slices := kube.DiscoveryV1().EndpointSlices(box.id.Namespace())
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{GenerateName: "forged-", Labels: box.id.Labels("sandbox-runner")},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{endpoint},
		Ports: []discoveryv1.EndpointPort{{Name: &service, Port: &port}},
	}
	slice.Labels[discoveryv1.LabelServiceName] = service
	made, err := slices.Create(t.Context(), slice, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := slices.Delete(context.Background(), made.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Errorf("deleting the forged slice: %v", err)
		}
	})
}

// lyingPod is a pod of the placement that runs nowhere, and whose status says that it ran at an address of
// its node.
func lyingPod(t *testing.T, kube kubernetes.Interface, box *instance, ip string) discoveryv1.Endpoint {
	t.Helper()
	pods := kube.CoreV1().Pods(box.id.Namespace())
	no, yes := false, true
	user := int64(1000)
	pod, err := pods.Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "liar", Labels: box.id.Labels("sandbox-runner")},
		Spec: corev1.PodSpec{
			NodeName: "nowhere", AutomountServiceAccountToken: &no,
			SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: &yes, RunAsUser: &user, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
			Containers: []corev1.Container{{
				Name: "main", Image: "none",
				SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: &no, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
			}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		now := int64(0)
		_ = pods.Delete(context.Background(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now})
	})
	status := []byte(`{"status":{"phase":"Running","hostIP":"` + ip + `","hostIPs":[{"ip":"` + ip + `"}],"podIP":"` + ip + `","podIPs":[{"ip":"` + ip + `"}],` +
		`"conditions":[{"type":"Ready","status":"True"}]}}`)
	if pod, err = pods.Patch(t.Context(), pod.Name, types.MergePatchType, status, metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	return discoveryv1.Endpoint{
		Addresses: []string{ip}, TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
	}
}

// oddPaths sends what a URL parser would tidy up, as raw bytes over TLS.
func oddPaths(t *testing.T, box *instance) {
	good := box.base() + "/log"
	segments := strings.Split(strings.TrimPrefix(good, "/"), "/")
	var paths []string
	for i := 2; i < len(segments); i++ { // every addressing segment after /dataplane/clusters/
		for _, bad := range []string{"..", ".", "", "%2e%2e", "%2E%2e", "a%2fb", "a%5cb", "a%00b", "%252e", "a%0ab", "%ff", "a\\b"} {
			s := append([]string(nil), segments...)
			s[i] = bad
			paths = append(paths, "/"+strings.Join(s, "/"))
		}
		s := append(append(append([]string(nil), segments[:i]...), ".."), segments[i:]...)
		paths = append(paths, "/"+strings.Join(s, "/"))
	}
	paths = append(paths,
		box.base()+"/log/../sync", box.base()+"/log/..%2fsync", box.base()+"/log/%2e%2e/restart", box.base()+"/log/..%5crestart",
		box.base()+"/log/%2e%2e%2frestart", "//dataplane/clusters/"+box.tn.path+"/sandboxrunners/web/log",
	)
	for _, path := range paths {
		code, reason := rawGet(t, path, box.tn.token)
		if code < 400 || code >= 500 {
			t.Errorf("GET %s: code %d, want a refusal (%s)", path, code, reason)
		}
	}
}

func rawGet(t *testing.T, path, token string) (int, string) {
	t.Helper()
	host := strings.TrimPrefix(world.URL, "https://")
	config := world.TLS()
	config.NextProtos = []string{"http/1.1"}
	conn, err := tls.Dial("tcp", host, config)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nConnection: close\r\n\r\n", path, host, token)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("GET %s: %v", path, err)
	}
	defer resp.Body.Close()
	return resp.StatusCode, resp.Status
}

// forgedRuntimeStatus plays a graph that lies, or an operator's mistake: kro is stopped for the
// while, so that the forged status stays, and put back to work afterwards.
func forgedRuntimeStatus(t *testing.T, box *instance, c *caller) {
	dyn := dynamic.NewForConfigOrDie(world.Stack.Runtime())
	kube := kubernetes.NewForConfigOrDie(world.Stack.Runtime())
	objects := dyn.Resource(runners).Namespace(box.id.Namespace())

	// A Service beside the real one, in the right namespace, that is not the instance's.
	decoy := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "decoy"}, Spec: corev1.ServiceSpec{
		Ports: []corev1.ServicePort{{Name: "control", Port: 7070, TargetPort: intstr.FromInt32(7070)}},
	}}
	if _, err := kube.CoreV1().Services(box.id.Namespace()).Create(t.Context(), decoy, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pause(t, "kro")
	original, err := objects.Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for name, ref := range map[string]string{
		"another namespace":                       `{"name":"kube-dns","namespace":"kube-system"}`,
		"a Service without the owner's UID label": fmt.Sprintf(`{"name":"decoy","namespace":%q}`, box.id.Namespace()),
	} {
		patch := []byte(`{"status":{"controlServiceRef":` + ref + `}}`)
		if _, err := objects.Patch(t.Context(), "web", types.MergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
			t.Fatal(err)
		}
		eventually(t, "a reference to "+name+" is refused", func() error {
			code, body := c.do(http.MethodGet, box.base()+"/log", nil)
			if code < 400 || strings.Contains(body, "kube-dns") || strings.Contains(body, "kube-system") {
				return fmt.Errorf("code %d: %s", code, body)
			}
			return nil
		})
	}
	secret := []byte(`{"status":{"controlSecretRef":{"name":"sandbar-control","namespace":"kube-system"},"controlServiceRef":` + mustJSON(t, original.Object["status"].(map[string]any)["controlServiceRef"]) + `}}`)
	if _, err := objects.Patch(t.Context(), "web", types.MergePatchType, secret, metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a reference to a Secret elsewhere is refused", func() error {
		if code, body := c.do(http.MethodGet, box.base()+"/log", nil); code < 400 {
			return fmt.Errorf("code %d: %s", code, body)
		}
		return nil
	})
	restore := []byte(`{"status":` + mustJSON(t, original.Object["status"]) + `}`)
	if _, err := objects.Patch(t.Context(), "web", types.MergePatchType, restore, metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the true references serve again", func() error {
		if code, body := c.do(http.MethodGet, box.base()+"/log", nil); code != http.StatusOK {
			return fmt.Errorf("code %d: %s", code, body)
		}
		return nil
	})
}
