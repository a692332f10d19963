// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package intercept

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	wire "github.com/sandbar-dev/sandbar/apis/intercept"
)

const (
	// adminPort is where proxies say that they are ready, unless the Service has that one itself.
	adminPort = 15080
	// firstNamed is the first of the numbers that named targetPorts get whose own number is not free.
	firstNamed = 16000
	// privileged is the first port on which a process without privileges may listen.
	privileged = 1024
)

// ports are where the proxies of a Service listen.
type ports struct {
	wire []wire.Port
	// declared are those of the container. A named targetPort is declared under its name: pods may have different numbers
	// for it, and the Service with the original pods still finds each pod's own, so that nothing has to be known of them.
	declared []corev1.ContainerPort
	admin    int32
}

// portsOf chooses where the proxies of a Service listen. Several ports of the Service with one targetPort are one: they have the
// same pods behind them. behind is the Service that has these, nil if it is not there yet.
func portsOf(s, behind *corev1.Service) ports {
	host := hostOf(s, behind)
	taken := map[int32]bool{}
	for _, p := range s.Spec.Ports {
		if target := targetOf(&p); target.Type == intstr.Int {
			taken[target.IntVal] = true
		}
	}
	var all ports
	seen := map[intstr.IntOrString]bool{}
	for i := range s.Spec.Ports {
		p := &s.Spec.Ports[i]
		target := targetOf(p)
		if seen[target] {
			continue
		}
		seen[target] = true
		listen := corev1.ContainerPort{ContainerPort: target.IntVal, Protocol: corev1.ProtocolTCP}
		if target.Type == intstr.String {
			listen.Name, listen.ContainerPort = target.StrVal, freePort(p.Port, firstNamed, taken)
			taken[listen.ContainerPort] = true
		}
		all.declared = append(all.declared, listen)
		all.wire = append(all.wire, wire.Port{
			Name: p.Name, Listen: listen.ContainerPort, Protocol: protocolOf(p),
			Baseline: net.JoinHostPort(host, strconv.Itoa(int(p.Port))),
		})
	}
	all.admin = freePort(adminPort, adminPort, taken)
	return all
}

// hostOf is where the original pods of a Service are reached: the address of the Service behind, so that requests need no answer of the
// cluster's DNS. It does not change while that Service lives; its name stands for it while it has none.
func hostOf(s, behind *corev1.Service) string {
	if behind == nil || behind.Spec.ClusterIP == "" || behind.Spec.ClusterIP == corev1.ClusterIPNone {
		return fmt.Sprintf("%s.%s.svc", BaselineName(s.Name), s.Namespace)
	}
	return behind.Spec.ClusterIP
}

// hash tells ports from others: where the proxies listen, what is spoken there, and where the original pods are.
func (p ports) hash() string {
	return hashOf([]byte(encode([]any{p.declared, p.wire})))[:nameHash]
}

// targetOf is the targetPort of a port of a Service: by default its own number.
func targetOf(p *corev1.ServicePort) intstr.IntOrString {
	if p.TargetPort.Type == intstr.Int && p.TargetPort.IntVal == 0 {
		return intstr.FromInt32(p.Port)
	}
	return p.TargetPort
}

// freePort is a number that is wanted, if it is free and needs no privilege, or else the next one from another on that is free.
func freePort(wanted, next int32, taken map[int32]bool) int32 {
	if wanted >= privileged && wanted != adminPort && !taken[wanted] {
		return wanted
	}
	for taken[next] {
		next++
	}
	return next
}

// needsPrivilege reports whether a proxy listens where a process needs a privilege, or the sysctl that lets it.
func (p ports) needsPrivilege() bool {
	return slices.ContainsFunc(p.wire, func(one wire.Port) bool { return one.Listen < privileged })
}

// The protocols that appProtocol (https://kubernetes.io/docs/concepts/services-networking/service/#application-protocol), or the
// beginning of a port's name, may say. In TCP are also those whose server speaks first: a proxy that waits for a client's
// first bytes would wait for ever.
var protocols = map[string]wire.Protocol{
	"http": wire.HTTP, "http2": wire.HTTP, "h2c": wire.HTTP, "grpc": wire.HTTP, "ws": wire.HTTP,
	"kubernetes.io/h2c": wire.HTTP, "kubernetes.io/ws": wire.HTTP,
	"https": wire.TCP, "tls": wire.TCP, "wss": wire.TCP, "tcp": wire.TCP, "kubernetes.io/wss": wire.TCP,
	"mysql": wire.TCP, "mongo": wire.TCP, "redis": wire.TCP, "postgres": wire.TCP, "postgresql": wire.TCP, "amqp": wire.TCP,
	"kafka": wire.TCP, "nats": wire.TCP, "smtp": wire.TCP, "imap": wire.TCP, "pop3": wire.TCP, "ftp": wire.TCP, "ssh": wire.TCP, "ldap": wire.TCP,
}

// protocolOf is what a port speaks: by its appProtocol, else by its name up to the first -, else it is found out.
func protocolOf(p *corev1.ServicePort) wire.Protocol {
	if p.AppProtocol != nil {
		if said, known := protocols[strings.ToLower(*p.AppProtocol)]; known {
			return said
		}
	}
	prefix, _, _ := strings.Cut(p.Name, "-")
	if said, known := protocols[prefix]; known {
		return said
	}
	return wire.Detect
}
