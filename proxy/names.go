// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"net"
	"os"
	"strings"
)

// resolvConf is where a pod finds the names that are looked for behind a relative one.
const resolvConf = "/etc/resolv.conf"

// clusterDomain returns the domain of the cluster's Services, as the kubelet has written it; empty if it has not.
func clusterDomain(file string) string {
	content, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	for line := range strings.SplitSeq(string(content), "\n") {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] != "search" {
			continue
		}
		for _, domain := range fields[1:] {
			if rest, ok := strings.CutPrefix(domain, "svc."); ok {
				return strings.TrimSuffix(rest, ".")
			}
		}
	}
	return ""
}

// absolute returns an address with the absolute form of its name.
func absolute(address, domain string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	return net.JoinHostPort(absoluteName(host, domain), port)
}

// absoluteName returns a name which, if it is that of a Service (NAME.NAMESPACE.svc), is looked for as it is and nowhere else.
//
// The attack: a relative name is looked for in several domains, and the one of all Services (svc.DOMAIN) comes before the right one. In
// a namespace called svc, with a headless Service called as the namespace and a pod called as the Service, its owner gets the
// requests.
func absoluteName(host, domain string) string {
	if domain == "" || !strings.HasSuffix(host, ".svc") {
		return host
	}
	return host + "." + domain + "."
}
