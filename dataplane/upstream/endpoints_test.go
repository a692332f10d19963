// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/sandbar-dev/sandbar/dataplane/fixture"
	"github.com/sandbar-dev/sandbar/dataplane/locate"
	"github.com/sandbar-dev/sandbar/dataplane/record"
	"github.com/sandbar-dev/sandbar/pkg/placement"
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

// forger puts slices and pods into a cache that no controller of Kubernetes would make.
type forger struct {
	t *testing.T
	*direct
}

// slice is one of the demo's preview.
func (f forger) slice(name string, change func(*discoveryv1.EndpointSlice), endpoints ...discoveryv1.Endpoint) {
	f.t.Helper()
	meta := fixture.Meta(fixture.DemoID, name)
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
	pod := fixture.Pod(fixture.DemoID, name, ips[0], 3000)
	for _, ip := range ips[1:] {
		pod.Status.PodIPs = append(pod.Status.PodIPs, corev1.PodIP{IP: ip})
	}
	if change != nil {
		change(pod)
	}
	if err := f.cache.Pods.GetIndexer().Add(pod); err != nil {
		f.t.Fatal(err)
	}
	return fixture.Endpoint(pod, nil)
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
	if diff := cmp.Diff(want, addressesOf(f.direct, fixture.ToPreview)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	elsewhere := fixture.ToPreview
	elsewhere.Namespace = "sb-other"
	if got := addressesOf(f.direct, elsewhere); len(got) != 0 {
		t.Errorf("another namespace has %v", got)
	}
}

// An attacker who can write a slice, or a pod's status, cannot lead requests out of the placement: each rule of admit and
// podOf has a line here that fails without it.
func TestAForgedEndpointIsNotDialled(t *testing.T) {
	victim := placement.ID{Origin: "cluster2", UID: "uid-victim"}
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
			theirs := fixture.Pod(victim, "theirs", tenant, 3000)
			if err := f.cache.Pods.GetIndexer().Add(theirs); err != nil {
				f.t.Fatal(err)
			}
			return fixture.Endpoint(theirs, nil)
		}, errNotAPod},
		"that says the other's pod were in this namespace": {func(f forger) discoveryv1.Endpoint {
			e := fixture.Endpoint(fixture.Pod(victim, "theirs", tenant, 3000), nil)
			e.TargetRef.Namespace = fixture.DemoID.Namespace()
			return e
		}, errUnknownPod},
		"of a pod that is not there": {func(forger) discoveryv1.Endpoint {
			return fixture.Endpoint(fixture.Pod(fixture.DemoID, "gone", "10.0.0.1", 3000), nil)
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
			if got := addressesOf(f.direct, fixture.ToPreview); len(got) != 0 {
				t.Errorf("%v may be dialled", got)
			}
			if why := f.none(fixture.ToPreview); !errors.Is(why, c.why) {
				t.Errorf("it says %v, want %v", why, c.why)
			}
		})
	}
}

// BenchmarkServes is what each request on a kept connection pays for looking at its pod once more.
func BenchmarkServes(b *testing.B) {
	d := placedDirect(b)
	p := podPeer{direct: d, to: fixture.ToPreview, at: slices.Collect(d.ready(fixture.ToPreview))[0].key()}
	b.ReportAllocs()
	for b.Loop() {
		if !p.Serves() {
			b.Fatal("the pod is not served")
		}
	}
}

// A pod that has taken another's address must not get what is meant for that one.
func TestAConnectionBelongsToItsPod(t *testing.T) {
	d := placedDirect(t)
	own := podPeer{direct: d, to: fixture.ToPreview, at: slices.Collect(d.ready(fixture.ToPreview))[0].key()}
	if !own.Serves() {
		t.Fatal("the endpoint does not serve its own destination")
	}
	another, elsewhere, foreign := own, own, own
	another.at.uid, elsewhere.to.Namespace, foreign.to.UID = "another-pod", "sb-other", "another-instance"
	if another.Serves() || elsewhere.Serves() || foreign.Serves() {
		t.Error("a connection to another pod, or for another instance, would be used")
	}
}

// placedDirect knows the demo's placement.
func placedDirect(t testing.TB) *direct {
	t.Helper()
	d := bareDirect(t)
	d.permit = func(netip.Addr) bool { return true }
	for _, obj := range fixture.Objects(t, fixture.DemoID, "demo", "10.0.0.1:80") {
		switch o := obj.(type) {
		case *corev1.Pod:
			_ = d.cache.Pods.GetIndexer().Add(o)
		case *discoveryv1.EndpointSlice:
			_ = d.cache.Slices.GetIndexer().Add(o)
		}
	}
	return d
}
