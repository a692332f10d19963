// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sandbar-dev/sandbar/pkg/http1"
	"github.com/sandbar-dev/sandbar/pkg/rawconn"
)

const (
	// refusedFor is how long an endpoint that accepted no connection comes last.
	refusedFor = 5 * time.Second
	// maxRefused bounds how many of those are remembered.
	maxRefused = 4096
	// maxAttempts is how many endpoints one request tries to reach.
	maxAttempts = 3
	// podSuffix ends the host of a Pod's port. No Service's host ends so: its last part is a
	// placement's namespace.
	podSuffix = ".pod"
)

// direct dials pods. Connections are kept per port of a Service, which belongs to one instance, so
// that what a pod might smuggle into an answer can hit no other tenant; and each remembers which
// pod it was made to, so that an address which goes to another pod never finds it.
type direct struct {
	cache *runtimeCache
	// permit says which addresses may be dialled; tests, whose pods are on loopback, have
	// their own.
	permit func(netip.Addr) bool
	*http1.Transport

	mu      sync.Mutex
	refused map[string]time.Time // by endpoint.id
}

func newDirect(cache *runtimeCache) *direct {
	d := &direct{cache: cache, permit: isPodAddress, refused: map[string]time.Time{}}
	d.Transport = &http1.Transport{
		Upstream: d, MaxHeaderBytes: maxPodHeaderBytes, MaxIdlePerHost: maxIdlePerTarget, MaxIdle: maxIdle,
	}
	return d
}

// address implements transport. The host is no name that anybody could look up; Dial reads it.
func (d *direct) address(t *target) url.URL {
	if t.pod != nil {
		return url.URL{Scheme: "http", Host: t.port + "." + t.pod.Name + "." + t.namespace + podSuffix}
	}
	return url.URL{Scheme: "http", Host: t.port + "." + t.service + "." + t.namespace}
}

// Dial implements http1.Upstream: it reaches the Pod, or a ready endpoint of the Service, that host
// stands for. It asks no DNS: what is checked is what is dialled.
func (d *direct) Dial(ctx context.Context, host string) (net.Conn, string, error) {
	ready, err := d.behind(host)
	if err != nil {
		return nil, "", err
	}
	return d.dial(ctx, ready)
}

// Serves implements http1.Upstream.
func (d *direct) Serves(host, id string) bool {
	ready, err := d.behind(host)
	if err != nil {
		return false
	}
	for e := range ready {
		if e.is(id) {
			return true
		}
	}
	return false
}

// behind yields what stands behind a host.
func (d *direct) behind(host string) (iter.Seq[readyPod], error) {
	if of, ok := strings.CutSuffix(host, podSuffix); ok {
		return d.podPort(of), nil
	}
	namespace, service, port, err := readHost(host)
	if err != nil {
		return nil, err
	}
	return d.ready(namespace, service, port), nil
}

func readHost(host string) (namespace, service, port string, err error) {
	port, rest, _ := strings.Cut(host, ".")
	service, namespace, _ = strings.Cut(rest, ".")
	if namespace == "" || strings.Contains(namespace, ".") {
		return "", "", "", fmt.Errorf("reading the target: %w", errNoEndpoint)
	}
	return namespace, service, port, nil
}

// dial tries the ready endpoints in random order, those that refused a moment ago last, so that one
// pod that is gone but not yet known to be does not fail the request.
func (d *direct) dial(ctx context.Context, ready iter.Seq[readyPod]) (net.Conn, string, error) {
	endpoints := d.order(addresses(ready))
	if len(endpoints) == 0 {
		return nil, "", errNoEndpoint
	}
	dialer := net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}
	var errs []error
	for _, e := range endpoints[:min(len(endpoints), maxAttempts)] {
		conn, err := dialer.DialContext(ctx, "tcp", e.address)
		if err == nil {
			d.note(e, false)
			return rawconn.Of(conn), e.id, nil
		}
		if ctx.Err() == nil { // else it says nothing about the pod
			d.note(e, true)
		}
		errs = append(errs, err)
	}
	return nil, "", fmt.Errorf("%w: %w", errNotAccepted, errors.Join(errs...))
}

func (d *direct) order(endpoints []endpoint) []endpoint {
	rand.Shuffle(len(endpoints), func(i, j int) { endpoints[i], endpoints[j] = endpoints[j], endpoints[i] })
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.refused) == 0 {
		return endpoints
	}
	var last []endpoint
	first := endpoints[:0]
	for _, e := range endpoints {
		if time.Since(d.refused[e.id]) < refusedFor {
			last = append(last, e)
		} else {
			first = append(first, e)
		}
	}
	return append(first, last...)
}

// note remembers whether an endpoint refused a connection.
func (d *direct) note(e endpoint, refused bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !refused {
		delete(d.refused, e.id)
		return
	}
	if len(d.refused) >= maxRefused {
		clear(d.refused) // to forget costs a try
	}
	d.refused[e.id] = time.Now()
}

// endpoint is an address of a pod that serves a port.
type endpoint struct {
	address string
	// id names the pod as well.
	id string
}

func addresses(ready iter.Seq[readyPod]) []endpoint {
	var found []endpoint
	for e := range ready {
		found = append(found, endpoint{address: net.JoinHostPort(e.ip, strconv.Itoa(e.port)), id: string(e.appendID(nil))})
	}
	return found
}

// readyPod is a ready pod of a Service, at one of its addresses.
type readyPod struct {
	ip   string
	port int
	uid  types.UID
}

// appendID appends what tells the pod from all others, also from a later one at its address.
func (e readyPod) appendID(b []byte) []byte {
	b = append(append(b, e.ip...), ' ')
	return append(append(strconv.AppendInt(b, int64(e.port), 10), ' '), e.uid...)
}

func (e readyPod) is(id string) bool {
	var b [128]byte
	return string(e.appendID(b[:0])) == id
}

// ready yields the ready pods of a Service that serve a port.
func (d *direct) ready(namespace, service, port string) iter.Seq[readyPod] {
	return func(yield func(readyPod) bool) {
		for slice := range d.cache.endpointSlices(namespace, service) {
			number := portNumber(slice, port)
			if number == 0 || slice.AddressType == discoveryv1.AddressTypeFQDN {
				continue
			}
			for i := range slice.Endpoints {
				if !d.yieldAddresses(&slice.Endpoints[i], number, yield) {
					return
				}
			}
		}
	}
}

func (d *direct) yieldAddresses(e *discoveryv1.Endpoint, port int, yield func(readyPod) bool) bool {
	if e.Conditions.Ready != nil && !*e.Conditions.Ready {
		return true
	}
	var uid types.UID
	if e.TargetRef != nil {
		uid = e.TargetRef.UID
	}
	for _, ip := range e.Addresses {
		if parsed, err := netip.ParseAddr(ip); err == nil && d.permit(parsed.Unmap()) && !yield(readyPod{ip, port, uid}) {
			return false
		}
	}
	return true
}

func portNumber(slice *discoveryv1.EndpointSlice, name string) int {
	for _, p := range slice.Ports {
		if p.Name != nil && *p.Name == name && p.Port != nil && (p.Protocol == nil || *p.Protocol == "TCP") {
			return int(*p.Port)
		}
	}
	return 0
}

// ec2Metadata is where a cloud answers to whoever asks from one of its machines.
var ec2Metadata = netip.MustParseAddr("fd00:ec2::254")

// isPodAddress refuses addresses that no pod has: an endpoint that names one would lead to the
// data plane's own machine or to a cloud's metadata (Kubernetes CVE-2021-25737).
func isPodAddress(ip netip.Addr) bool {
	return ip.IsValid() && !ip.IsLoopback() && !ip.IsUnspecified() && !ip.IsMulticast() &&
		!ip.IsLinkLocalUnicast() && ip != netip.AddrFrom4([4]byte{255, 255, 255, 255}) && ip != ec2Metadata
}
