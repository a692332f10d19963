// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
)

// direct dials pods. Connections are kept per port of a Service, not per address: an address
// that goes to another pod later must not find a connection that was made for this one.
type direct struct {
	cache *runtimeCache
	// permit says which addresses may be dialled; tests, whose pods are on loopback, have
	// their own.
	permit func(netip.Addr) bool
	*http.Transport
}

func newDirect(cache *runtimeCache) *direct {
	d := &direct{cache: cache, permit: isPodAddress}
	d.Transport = &http.Transport{
		// Never a proxy: an environment variable would send the control token through it.
		Proxy:                  nil,
		DialContext:            d.dial,
		MaxIdleConns:           maxIdle,
		MaxIdleConnsPerHost:    maxIdlePerTarget,
		IdleConnTimeout:        60 * time.Second,
		ExpectContinueTimeout:  time.Second,
		MaxResponseHeaderBytes: maxPodHeaderBytes,
		// What the pod compressed goes on as it is; inflating it would let a pod make us
		// work, and allocate.
		DisableCompression: true,
		WriteBufferSize:    16 << 10,
		ReadBufferSize:     16 << 10,
	}
	return d
}

// address implements transport. The host is no name that anybody could look up; dial reads it.
func (d *direct) address(t *target) *url.URL {
	return &url.URL{Scheme: "http", Host: t.port + "." + t.service + "." + t.namespace}
}

// dial reaches a ready endpoint of the Service that address stands for. It asks no DNS: what is
// checked is what is dialled.
func (d *direct) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("reading the target: %w", err)
	}
	parts := strings.Split(host, ".")
	if len(parts) != 3 {
		return nil, fmt.Errorf("reading the target: %w", errNoEndpoint)
	}
	return d.dialService(ctx, network, parts[2], parts[1], parts[0])
}

// dialService tries the ready endpoints in random order, so that one pod that is gone but not
// yet known to be does not fail the request.
func (d *direct) dialService(ctx context.Context, network, namespace, service, port string) (net.Conn, error) {
	endpoints := d.endpoints(namespace, service, port)
	if len(endpoints) == 0 {
		return nil, errNoEndpoint
	}
	rand.Shuffle(len(endpoints), func(i, j int) { endpoints[i], endpoints[j] = endpoints[j], endpoints[i] })
	dialer := net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}
	var errs []error
	for _, endpoint := range endpoints[:min(len(endpoints), 3)] {
		conn, err := dialer.DialContext(ctx, network, endpoint)
		if err == nil {
			return conn, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// endpoints lists the addresses of the ready pods of a Service that serve a port.
func (d *direct) endpoints(namespace, service, port string) []string {
	var found []string
	for _, slice := range d.cache.endpointSlices(namespace, service) {
		number := portNumber(slice, port)
		if number == 0 || slice.AddressType == discoveryv1.AddressTypeFQDN {
			continue
		}
		for _, endpoint := range slice.Endpoints {
			if endpoint.Conditions.Ready != nil && !*endpoint.Conditions.Ready {
				continue
			}
			for _, address := range endpoint.Addresses {
				if ip, err := netip.ParseAddr(address); err == nil && d.permit(ip.Unmap()) {
					found = append(found, net.JoinHostPort(address, strconv.Itoa(number)))
				}
			}
		}
	}
	return found
}

func portNumber(slice *discoveryv1.EndpointSlice, name string) int {
	for _, p := range slice.Ports {
		if p.Name != nil && *p.Name == name && p.Port != nil && (p.Protocol == nil || *p.Protocol == "TCP") {
			return int(*p.Port)
		}
	}
	return 0
}

// isPodAddress refuses addresses that no pod has: an endpoint that names one would lead to the
// data plane's own machine or to a cloud's metadata (Kubernetes CVE-2021-25737).
func isPodAddress(ip netip.Addr) bool {
	return ip.IsValid() && !ip.IsLoopback() && !ip.IsUnspecified() && !ip.IsMulticast() &&
		!ip.IsLinkLocalUnicast() && ip != netip.AddrFrom4([4]byte{255, 255, 255, 255}) &&
		ip != netip.MustParseAddr("fd00:ec2::254")
}
