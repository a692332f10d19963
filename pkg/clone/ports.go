// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package clone

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
)

// inferPorts are the ports of a pod's containers, in the form of a Service's and in the order of the containers. Of a
// number and protocol that two containers have, the first counts: a Service cannot tell them apart.
func inferPorts(spec *corev1.PodSpec) []corev1.ServicePort {
	var ports []corev1.ServicePort
	seen := map[portKey]bool{}
	for _, p := range containerPorts(spec) {
		key := portKey{p.ContainerPort, cmp.Or(p.Protocol, corev1.ProtocolTCP)}
		if !seen[key] {
			seen[key] = true
			ports = append(ports, corev1.ServicePort{Name: p.Name, Protocol: key.protocol, Port: key.number})
		}
	}
	return completePorts(ports)
}

type portKey struct {
	number   int32
	protocol corev1.Protocol
}

// containerPorts are the ports of the containers that run as long as the pod: also of init containers that restart.
func containerPorts(spec *corev1.PodSpec) []corev1.ContainerPort {
	var ports []corev1.ContainerPort
	for i := range spec.Containers {
		ports = append(ports, spec.Containers[i].Ports...)
	}
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			ports = append(ports, c.Ports...)
		}
	}
	return ports
}

// completePorts fills in protocol TCP, the port's own number as targetPort, and the name port-<number>. A name that an
// earlier port has gets the number as well, and then the protocol: a Service names each port once.
func completePorts(ports []corev1.ServicePort) []corev1.ServicePort {
	complete := slices.Clone(ports)
	taken := map[string]bool{}
	var unnamed []*corev1.ServicePort
	for i := range complete {
		p := &complete[i]
		p.Protocol = cmp.Or(p.Protocol, corev1.ProtocolTCP)
		if p.TargetPort == (intstr.IntOrString{}) || p.TargetPort == intstr.FromString("") {
			p.TargetPort = intstr.FromInt32(p.Port)
		}
		if p.Name == "" || taken[p.Name] {
			unnamed = append(unnamed, p)
			continue
		}
		taken[p.Name] = true
	}
	for _, p := range unnamed {
		p.Name = fmt.Sprintf("%s-%d", cmp.Or(p.Name, "port"), p.Port)
		if taken[p.Name] {
			p.Name += "-" + strings.ToLower(string(p.Protocol))
		}
		taken[p.Name] = true
	}
	return complete
}

// checkPorts refuses a tenant's ports that a Service cannot have, or that lead nowhere.
func checkPorts(ports []corev1.ServicePort, spec *corev1.PodSpec) error {
	names, numbers := map[string]bool{}, map[portKey]bool{}
	for i := range ports {
		p := &ports[i]
		at := fmt.Sprintf("service.ports[%d]", i)
		key := portKey{p.Port, cmp.Or(p.Protocol, corev1.ProtocolTCP)}
		switch {
		case len(validation.IsValidPortNum(int(p.Port))) > 0:
			return refuse(InvalidSpec, "%s.port: %d is not a port; give a number from 1 to 65535", at, p.Port)
		case !slices.Contains([]corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP}, key.protocol):
			return refuse(InvalidSpec, "%s.protocol: %q is unknown; use TCP, UDP or SCTP", at, p.Protocol)
		case p.NodePort != 0:
			return refuse(InvalidSpec, "%s.nodePort: a sandbox has no port on nodes; remove it", at)
		case p.Name != "" && len(validation.IsDNS1123Label(p.Name)) > 0:
			return refuse(InvalidSpec, "%s.name: %q is not a DNS label; use at most 63 of a-z, 0-9 and -", at, p.Name)
		case p.Name != "" && names[p.Name]:
			return refuse(InvalidSpec, "%s.name: %q is there twice; choose another", at, p.Name)
		case numbers[key]:
			return refuse(InvalidSpec, "%s.port: %d of %s is there twice; remove one", at, p.Port, key.protocol)
		case p.AppProtocol != nil && len(validation.IsQualifiedName(*p.AppProtocol)) > 0:
			return refuse(InvalidSpec, "%s.appProtocol: %q is not a name of a protocol; write one such as http, or with the domain of who defines it, such as kubernetes.io/h2c", at, *p.AppProtocol)
		}
		names[p.Name], numbers[key] = true, true
		if err := checkTarget(at, p.TargetPort, spec); err != nil {
			return err
		}
	}
	return nil
}

// checkContainerPorts refuses names of containers' ports that Kubernetes does not take: kro would be told alone.
func (r *rendering) checkContainerPorts(*corev1.PodTemplateSpec) error {
	for _, list := range []struct {
		field string
		of    []corev1.Container
	}{{"initContainers", r.template.Spec.InitContainers}, {"containers", r.template.Spec.Containers}} {
		for i := range list.of {
			for j, p := range list.of[i].Ports {
				if p.Name != "" && len(validation.IsValidPortName(p.Name)) > 0 {
					return refuse(InvalidSpec, "spec.%s[%d].ports[%d].name: %q is not a name of a port; use at most 15 of a-z, 0-9 and single -, with a letter among them", list.field, i, j, p.Name)
				}
			}
		}
	}
	return nil
}

// checkTarget refuses a targetPort of which the pod has none: the Service would have no endpoints, and nobody would be
// told. A number leads to what listens there, named by a container or not.
func checkTarget(at string, target intstr.IntOrString, spec *corev1.PodSpec) error {
	if target.Type == intstr.Int {
		if target.IntVal != 0 && len(validation.IsValidPortNum(int(target.IntVal))) > 0 {
			return refuse(InvalidSpec, "%s.targetPort: %d is not a port; give a number from 1 to 65535, or the name of a container's port", at, target.IntVal)
		}
		return nil
	}
	known := map[string]bool{"": true}
	for _, p := range containerPorts(spec) {
		known[p.Name] = true
	}
	if known[target.StrVal] {
		return nil
	}
	delete(known, "")
	if len(known) == 0 {
		return refuse(InvalidSpec, "%s.targetPort: %q is not a port of the pod, whose ports have no names; give a number", at, target.StrVal)
	}
	return refuse(InvalidSpec, "%s.targetPort: %q is not a port of the pod; it has %s", at, target.StrVal, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
}
