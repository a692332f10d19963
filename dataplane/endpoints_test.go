// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/sandbar-dev/sandbar/dataplane/locate"
	"github.com/sandbar-dev/sandbar/dataplane/record"
	"github.com/sandbar-dev/sandbar/dataplane/refusal"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// toPreview and toControl are the demo's destinations.
var (
	toPreview = locate.Destination{Namespace: demoID.Namespace(), UID: demoID.UID, Service: "preview", Port: "preview"}
	toControl = locate.Destination{Namespace: demoID.Namespace(), UID: demoID.UID, Service: "control", Port: "control", Secret: "sandbar-control"}
)

// bareDirect dials what the test puts into its cache.
func bareDirect(t testing.TB) *direct {
	t.Helper()
	cache, err := locate.NewRuntimeCache(fake.NewClientset())
	if err != nil {
		t.Fatal(err)
	}
	seen := locate.NewChanges()
	control, err := newTokens(cache.Secrets, seen)
	if err != nil {
		t.Fatal(err)
	}
	return newDirect(cache, control, seen, record.NewMetrics("test"))
}

// addressesOf are those that may be dialled, sorted.
func addressesOf(d *direct, to locate.Destination) []string {
	var got []string
	for e := range d.ready(to) {
		got = append(got, net.JoinHostPort(e.ip, strconv.Itoa(e.port)))
	}
	slices.Sort(got)
	return got
}

// addDeadPod gives the demo's preview a second pod, at another address of this machine on the same
// port, where nobody listens.
func (w *world) addDeadPod() {
	w.t.Helper()
	slice := slices.Collect(w.server.cache.EndpointSlices(demoID.Namespace(), "preview"))[0].DeepCopy()
	pod := placedPod(demoID, "dead", "127.0.0.9", *slice.Ports[0].Port)
	slice.Name, slice.Endpoints = "dead", []discoveryv1.Endpoint{endpointOf(pod, nil)}
	if err := w.server.cache.Pods.GetIndexer().Add(pod); err != nil {
		w.t.Fatal(err)
	}
	if err := w.server.cache.Slices.GetIndexer().Add(slice); err != nil {
		w.t.Fatal(err)
	}
}

// forger puts slices and pods into a cache that no controller of Kubernetes would make.
type forger struct {
	t *testing.T
	*direct
}

// slice is one of the demo's preview.
func (f forger) slice(name string, change func(*discoveryv1.EndpointSlice), endpoints ...discoveryv1.Endpoint) {
	f.t.Helper()
	meta := placementMeta(demoID, name)
	meta.Labels[discoveryv1.LabelServiceName] = "preview"
	port, number := "preview", int32(3000)
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: meta, AddressType: discoveryv1.AddressTypeIPv4, Endpoints: endpoints,
		Ports: []discoveryv1.EndpointPort{{Name: &port, Port: &number}},
	}
	if change != nil {
		change(slice)
	}
	if err := f.cache.Slices.GetIndexer().Add(slice); err != nil {
		f.t.Fatal(err)
	}
}

// pod is one of the demo's, and its endpoint.
func (f forger) pod(name string, change func(*corev1.Pod), ips ...string) discoveryv1.Endpoint {
	f.t.Helper()
	pod := placedPod(demoID, name, ips[0], 3000)
	for _, ip := range ips[1:] {
		pod.Status.PodIPs = append(pod.Status.PodIPs, corev1.PodIP{IP: ip})
	}
	if change != nil {
		change(pod)
	}
	if err := f.cache.Pods.GetIndexer().Add(pod); err != nil {
		f.t.Fatal(err)
	}
	return endpointOf(pod, nil)
}

func TestEndpointsOfAService(t *testing.T) {
	f := forger{t, bareDirect(t)}
	f.permit = isPodAddress
	yes, no, udp, other := true, false, corev1.ProtocolUDP, "other"
	both := f.pod("both", nil, "10.0.0.4", "fd12::7")
	v4, v6 := both, both
	v4.Addresses, v6.Addresses = both.Addresses[:1], both.Addresses[1:]
	ready := f.pod("ready", nil, "10.0.0.1")
	ready.Conditions.Ready = &yes
	notReady := f.pod("not-ready", nil, "10.0.0.3")
	notReady.Conditions.Ready = &no
	f.slice("ready", nil, ready, f.pod("perhaps", nil, "10.0.0.2"), notReady, v4)
	f.slice("v6", func(s *discoveryv1.EndpointSlice) { s.AddressType = discoveryv1.AddressTypeIPv6 }, v6)
	f.slice("another-port", func(s *discoveryv1.EndpointSlice) { s.Ports[0].Name = &other }, f.pod("a", nil, "10.0.1.1"))
	f.slice("udp", func(s *discoveryv1.EndpointSlice) { s.Ports[0].Protocol = &udp }, f.pod("b", nil, "10.0.1.2"))
	named := f.pod("c", nil, "10.0.1.3")
	named.Addresses = []string{"metadata.internal"}
	f.slice("fqdn", func(s *discoveryv1.EndpointSlice) { s.AddressType = discoveryv1.AddressTypeFQDN }, named)
	f.slice("hostile", nil, f.pod("hostile", nil, "127.0.0.1", "169.254.169.254", "0.0.0.0", "224.0.0.1", "255.255.255.255",
		"::1", "fe80::1", "::ffff:127.0.0.1", "fd00:ec2::254", "::", "nonsense"))
	want := []string{"10.0.0.1:3000", "10.0.0.2:3000", "10.0.0.4:3000", "[fd12::7]:3000"}
	if diff := cmp.Diff(want, addressesOf(f.direct, toPreview)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	elsewhere := toPreview
	elsewhere.Namespace = "sb-other"
	if got := addressesOf(f.direct, elsewhere); len(got) != 0 {
		t.Errorf("another namespace has %v", got)
	}
}

// An attacker who can write a slice, or a pod's status, cannot lead requests out of the placement: each rule of admit and
// podOf has a line here that fails without it.
func TestAForgedEndpointIsNotDialled(t *testing.T) {
	victim := placement.ID{Cluster: "cluster2", UID: "uid-victim"}
	const apiServer, tenant, node = "10.96.0.1", "10.0.9.9", "192.168.1.1"
	for name, c := range map[string]struct {
		forge func(f forger) discoveryv1.Endpoint
		why   error
	}{
		"without a pod": {func(forger) discoveryv1.Endpoint {
			return discoveryv1.Endpoint{Addresses: []string{apiServer}}
		}, errNotAPod},
		"of a Service without a selector": {func(forger) discoveryv1.Endpoint {
			return discoveryv1.Endpoint{Addresses: []string{"10.20.30.40"}}
		}, errNotAPod},
		"that is another kind of object": {func(f forger) discoveryv1.Endpoint {
			e := f.pod("own", nil, "10.0.0.1")
			e.TargetRef.Kind = "Node"
			return e
		}, errNotAPod},
		"that is another tenant's pod": {func(f forger) discoveryv1.Endpoint {
			theirs := placedPod(victim, "theirs", tenant, 3000)
			if err := f.cache.Pods.GetIndexer().Add(theirs); err != nil {
				f.t.Fatal(err)
			}
			return endpointOf(theirs, nil)
		}, errNotAPod},
		"that says the other's pod were in this namespace": {func(f forger) discoveryv1.Endpoint {
			e := endpointOf(placedPod(victim, "theirs", tenant, 3000), nil)
			e.TargetRef.Namespace = demoID.Namespace()
			return e
		}, errUnknownPod},
		"of a pod that is not there": {func(forger) discoveryv1.Endpoint {
			return endpointOf(placedPod(demoID, "gone", "10.0.0.1", 3000), nil)
		}, errUnknownPod},
		"of a former pod of that name": {func(f forger) discoveryv1.Endpoint {
			e := f.pod("own", nil, "10.0.0.1")
			e.TargetRef.UID = "uid-of-a-former-one"
			return e
		}, errUnknownPod},
		"without a UID": {func(f forger) discoveryv1.Endpoint {
			e := f.pod("own", nil, "10.0.0.1")
			e.TargetRef.UID = ""
			return e
		}, errUnknownPod},
		"of a pod of another instance in this namespace": {func(f forger) discoveryv1.Endpoint {
			return f.pod("stray", func(p *corev1.Pod) { p.Labels = victim.Labels("sandbox-runner") }, "10.0.0.1")
		}, errForeignPod},
		"of a pod without a label": {func(f forger) discoveryv1.Endpoint {
			return f.pod("stray", func(p *corev1.Pod) { p.Labels = nil }, "10.0.0.1")
		}, errForeignPod},
		"at the API server's address": {func(f forger) discoveryv1.Endpoint {
			e := f.pod("own", nil, "10.0.0.1")
			e.Addresses = []string{apiServer}
			return e
		}, errOtherAddress},
		"at another tenant's address": {func(f forger) discoveryv1.Endpoint {
			e := f.pod("own", nil, "10.0.0.1")
			e.Addresses = []string{tenant}
			return e
		}, errOtherAddress},
		"on its node's network": {func(f forger) discoveryv1.Endpoint {
			return f.pod("own", func(p *corev1.Pod) { p.Spec.HostNetwork = true }, "10.0.0.1")
		}, errForeignNode},
		"at its node's address": {func(f forger) discoveryv1.Endpoint {
			return f.pod("own", func(p *corev1.Pod) { p.Status.HostIP = node }, node)
		}, errForeignNode},
		"of a pod that has ended, whose address is free": {func(f forger) discoveryv1.Endpoint {
			return f.pod("own", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }, "10.0.0.1")
		}, errUnknownPod},
		"of a pod that has failed": {func(f forger) discoveryv1.Endpoint {
			return f.pod("own", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, "10.0.0.1")
		}, errUnknownPod},
		"of a pod whose status says it were this machine": {func(f forger) discoveryv1.Endpoint {
			return f.pod("own", nil, "127.0.0.1")
		}, errNoPodAddress},
	} {
		t.Run(name, func(t *testing.T) {
			f := forger{t, bareDirect(t)}
			f.permit = isPodAddress
			f.slice("forged", nil, c.forge(f))
			if got := addressesOf(f.direct, toPreview); len(got) != 0 {
				t.Errorf("%v may be dialled", got)
			}
			if why := f.none(toPreview); !errors.Is(why, c.why) {
				t.Errorf("it says %v, want %v", why, c.why)
			}
		})
	}
}

// What a caller and the operator hear of it, and that not even a connection is made.
func TestAForgedEndpointGetsNoConnection(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var taken atomic.Int64
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			taken.Add(1)
			conn.Close()
		}
	}()
	for name, change := range map[string]func(*discoveryv1.Endpoint){
		"without a pod":            func(e *discoveryv1.Endpoint) { e.TargetRef = nil },
		"of another tenant's pod":  func(e *discoveryv1.Endpoint) { e.TargetRef.Namespace = "sb-another" },
		"at an address of its own": func(e *discoveryv1.Endpoint) { e.Addresses = []string{"127.0.0.1"} },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil, func(s *setup) { s.backendAddress = "127.0.0.8:1" })
			port := int32(l.Addr().(*net.TCPAddr).Port)
			for _, service := range []string{"control", "preview"} {
				slice := slices.Collect(w.server.cache.EndpointSlices(demoID.Namespace(), service))[0].DeepCopy()
				slice.Ports[0].Port = &port
				change(&slice.Endpoints[0])
				if err := w.server.cache.Slices.GetIndexer().Add(slice); err != nil {
					t.Fatal(err)
				}
			}
			for _, verb := range []string{"sync", "proxy"} {
				res, body := w.do("POST", demo+verb, adminToken, nil)
				wantStatus(t, res, body, http.StatusBadGateway)
				if reason := w.lastReason(); reason != refusal.CauseForeignRef {
					t.Errorf("%s: the access line says %s", verb, reason)
				}
			}
			if n := taken.Load(); n != 0 {
				t.Errorf("%d connections were made", n)
			}
		})
	}
}

// The informers of pods and of slices do not see a new pod at the same moment, and an instance is Ready
// by then.
func TestAPodThatIsKnownAMomentLaterIsWaitedFor(t *testing.T) {
	w := newWorld(t, recorder())
	pods := w.runtime.CoreV1().Pods(demoID.Namespace())
	pod, err := pods.Get(t.Context(), "pod-0", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := pods.Delete(t.Context(), "pod-0", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the pod is gone from the cache", func() bool {
		return locate.Lookup[corev1.Pod](w.server.cache.Pods, demoID.Namespace()+"/pod-0") == nil
	})
	got := w.later("POST", demo+"sync", "x")
	eventually(t, "the request waits", func() bool { return w.server.handler.changes.some.Load() == 1 })
	if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := <-got; got.code != http.StatusOK {
		t.Errorf("got %d %s", got.code, got.body)
	}
	if n := len(w.server.handler.changes.waiting); n != 0 {
		t.Errorf("%d placements are waited for", n)
	}
}

func TestAPodThatIsNotThereIsNotReady(t *testing.T) {
	w := newWorld(t, recorder())
	if err := w.runtime.CoreV1().Pods(demoID.Namespace()).Delete(t.Context(), "pod-0", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the pod is gone from the cache", func() bool {
		return locate.Lookup[corev1.Pod](w.server.cache.Pods, demoID.Namespace()+"/pod-0") == nil
	})
	res, body := w.do("POST", demo+"sync", adminToken, nil)
	wantStatus(t, res, body, http.StatusConflict)
}

func FuzzReadHost(f *testing.F) {
	f.Add(toPreview.Host())
	f.Add(toControl.Host())
	f.Add("service/p/s/n/u/x/proof")
	f.Add("pod/80/a.b/n/u//")
	f.Add("service//s/n/u//")
	f.Fuzz(func(t *testing.T, host string) {
		if d, ok := locate.ReadHost(host); ok && d.Host() != host {
			t.Errorf("%q is read as %v, which is %q", host, d, d.Host())
		}
	})
}

// BenchmarkServes is what each request on a kept connection pays for looking at its pod once more.
func BenchmarkServes(b *testing.B) {
	d := bareDirect(b)
	d.permit = func(netip.Addr) bool { return true }
	for _, obj := range placementObjects(b, demoID, "demo", "10.0.0.1:80") {
		switch o := obj.(type) {
		case *corev1.Pod:
			_ = d.cache.Pods.GetIndexer().Add(o)
		case *discoveryv1.EndpointSlice:
			_ = d.cache.Slices.GetIndexer().Add(o)
		}
	}
	p := podPeer{direct: d, to: toPreview, at: slices.Collect(d.ready(toPreview))[0].key()}
	b.ReportAllocs()
	for b.Loop() {
		if !p.Serves() {
			b.Fatal("the pod is not served")
		}
	}
}
