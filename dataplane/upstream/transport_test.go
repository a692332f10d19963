// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/sandbar-dev/sandbar/dataplane/fixture"
	"github.com/sandbar-dev/sandbar/dataplane/locate"
	"github.com/sandbar-dev/sandbar/dataplane/record"
)

func TestAddressesOfAPod(t *testing.T) {
	d := bareDirect(t)
	cache := d.cache
	onNode, pending := fixture.Pod(fixture.DemoID, "on-node", "10.0.0.2", 80), fixture.Pod(fixture.DemoID, "pending", "10.0.0.3", 80)
	onNode.Spec.HostNetwork, pending.Status.Phase = true, corev1.PodPending
	hostile := fixture.Pod(fixture.DemoID, "hostile", "10.0.0.4", 80)
	for _, ip := range []string{"127.0.0.1", "169.254.169.254", "::1", "::ffff:127.0.0.1", "fd00:ec2::254", "nonsense"} {
		hostile.Status.PodIPs = append(hostile.Status.PodIPs, corev1.PodIP{IP: ip})
	}
	for _, pod := range []*corev1.Pod{fixture.Pod(fixture.DemoID, "pod-0", "10.0.0.1", 80), onNode, pending, hostile} {
		if err := cache.Pods.GetIndexer().Add(pod); err != nil {
			t.Fatal(err)
		}
	}
	own := fixture.DemoID.Namespace()
	for of, want := range map[locate.Destination][]string{
		{Namespace: own, UID: fixture.DemoID.UID, Pod: "pod-0", Port: "3000"}:        {"10.0.0.1:3000"},
		{Namespace: own, UID: fixture.DemoID.UID, Pod: "hostile", Port: "3000"}:      {"10.0.0.4:3000"},
		{Namespace: own, UID: fixture.DemoID.UID, Pod: "on-node", Port: "3000"}:      nil,
		{Namespace: own, UID: fixture.DemoID.UID, Pod: "pending", Port: "3000"}:      nil,
		{Namespace: "sb-other", UID: fixture.DemoID.UID, Pod: "pod-0", Port: "3000"}: nil,
		{Namespace: own, UID: "another-instance", Pod: "pod-0", Port: "3000"}:        nil,
		{Namespace: own, UID: fixture.DemoID.UID, Pod: "pod-0", Port: "http"}:        nil,
		{Namespace: own, UID: fixture.DemoID.UID, Service: "pod-0", Port: "3000"}:    nil,
	} {
		if diff := cmp.Diff(want, addressesOf(d, of)); diff != "" {
			t.Errorf("%v (-want +got):\n%s", of, diff)
		}
	}
}

func TestAutoChoosesByTrying(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChooser(Auto, &direct{}, &apiServer{}, record.NewMetrics("test"), slog.New(slog.DiscardHandler))
		asDirect, asAPIServer := Direct, APIServer
		if got := c.conclude(errNoEndpoint); got != asDirect || c.chosen != "" {
			t.Error("an endpoint that is not there decided")
		}
		if got := c.conclude(context.DeadlineExceeded); got != asAPIServer {
			t.Error("a pod that cannot be reached did not lead to the API server")
		}
		if got := c.pick(t.Context(), &locate.Target{At: &locate.Place{}}); got != asAPIServer {
			t.Error("it was tried again at once")
		}
		if got := c.conclude(fmt.Errorf("dialling: %w", syscall.ECONNREFUSED)); got != asDirect || !c.settled {
			t.Error("a refusal, which proves a route, was taken for none")
		}
		if got := c.conclude(errors.New("timeout")); got != asDirect {
			t.Error("a later failure unsettled what is settled")
		}
	})
}

func TestNoAddressOfThePlatformIsAPods(t *testing.T) {
	for address, want := range map[string]bool{
		"10.1.2.3": true, "192.168.1.1": true, "100.64.0.1": true, "fd12::1": true, "8.8.8.8": true,
		"127.0.0.1": false, "127.9.9.9": false, "169.254.169.254": false, "0.0.0.0": false, "224.0.0.251": false,
		"255.255.255.255": false, "::1": false, "::": false, "fe80::1": false, "ff02::1": false, "fd00:ec2::254": false,
	} {
		if got := isPodAddress(netip.MustParseAddr(address)); got != want {
			t.Errorf("%s: %t", address, got)
		}
	}
}

// A proxy that the environment names would get control tokens, and what tenants send.
func TestNoProxyOfTheEnvironmentIsUsedTowardsPods(t *testing.T) {
	a, err := newAPIServer(&rest.Config{Host: "https://runtime.example"})
	if err != nil {
		t.Fatal(err)
	}
	if a.pool.Proxy != nil {
		t.Error("the transport asks for a proxy although the configuration names none")
	}
}
