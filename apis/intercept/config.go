// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package intercept is the format in which the controllers say to the proxies in front of Services of a Baseline which requests
// they lead where: one document for each Service, a key of the ConfigMap that the proxies of its namespace watch.
package intercept

import (
	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

const (
	// ConfigMap is the name of the ConfigMap, in the namespace of the Services. It is one for all of a namespace, so that the
	// proxies have the right to read that one and no other.
	ConfigMap = "sandbar-proxy"
	// MaxBytes is how long a document is at most: a ConfigMap has room for 1 MiB.
	MaxBytes = 128 << 10
	// MaxRules is how many rules a document has at most.
	MaxRules = 512
)

// Key is the key of the ConfigMap under which the document of a Service is.
func Key(service string) string { return service + ".json" }

// Config is what the proxies of one Service do.
type Config struct {
	// Service is the name of the Service, for logs and metrics.
	Service string `json:"service"`

	// Ports are those of the Service. They do not change while a proxy runs: other ports are another Deployment's.
	Ports []Port `json:"ports"`

	// Rules lead requests to copies: the first that matches counts. A request that none matches, and all that is not HTTP, goes
	// to the baseline.
	Rules []Rule `json:"rules,omitempty"`

	// Draining has each answer ask its client to close the connection: the Service has its own pods again, and the next
	// connection of the client reaches them.
	Draining bool `json:"draining,omitempty"`
}

// Port is a TCP port of the Service.
type Port struct {
	// Name is that of the Service's port, for logs and metrics; it may be empty.
	Name string `json:"name,omitempty"`
	// Listen is the port on which the proxy listens: the number that the Service's targetPort means.
	Listen int32 `json:"listen"`
	// Baseline is the address, host:port, of the Service that has the original pods. The host is one of its addresses, or its name with
	// the namespace and svc, and the same for all ports: a proxy asks the cluster's DNS, and takes no other host.
	Baseline string `json:"baseline"`
	// Protocol is what the port speaks.
	Protocol Protocol `json:"protocol"`
}

// Protocol is what a port speaks.
type Protocol string

const (
	// HTTP is HTTP/1.1, with upgrades, and HTTP/2 with prior knowledge.
	HTTP Protocol = "HTTP"
	// TCP is anything else. It passes to the baseline as it is.
	TCP Protocol = "TCP"
	// Detect is HTTP if the first bytes of the client are those of an HTTP request, and TCP if not.
	Detect Protocol = "Detect"
)

// Rule leads the requests of one sandbox that match to backends.
type Rule struct {
	// ID is that of the sandbox. Requests without it never match.
	ID string `json:"id"`
	// Header is the header that carries the ID, in lower case. In baggage (W3C) the ID is the value of the entry sandbox, in
	// any other header it is the whole value.
	Header string `json:"header"`
	// Match is what else the request has to meet, with all defaults written out.
	Match sandbarv1alpha1.SandboxRouteMatch `json:"match"`
	// Backends share the requests in proportion to their weights, at least one of which is above 0.
	Backends []Backend `json:"backends"`
}

// Backend is a port of a Service of the runtime cluster.
type Backend struct {
	// Address is host:port.
	Address string `json:"address"`
	// Weight is the backend's part of the requests out of the sum of all.
	Weight int32 `json:"weight"`
}
