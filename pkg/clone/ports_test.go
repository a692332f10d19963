// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package clone

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// ports reads "name:number/PROTOCOL" with a space between them; the name may be missing.
func ports(text string) (list []corev1.ServicePort) {
	for part := range strings.FieldsSeq(text) {
		name, rest, named := strings.Cut(part, ":")
		if !named {
			name, rest = "", part
		}
		p := corev1.ServicePort{Name: name}
		if _, err := fmt.Sscanf(strings.Replace(rest, "/", " ", 1), "%d %s", &p.Port, &p.Protocol); err != nil {
			panic(err)
		}
		list = append(list, p)
	}
	return list
}

func TestPortsOfContainersBecomeThoseOfAService(t *testing.T) {
	for name, row := range map[string]struct{ containers, inits, want string }{
		"a name and a number":                         {"http:80/TCP", "", "http:80/TCP=80"},
		"no name":                                     {"80/TCP", "", "port-80:80/TCP=80"},
		"one number of two containers":                {"a:80/TCP b:80/TCP", "", "a:80/TCP=80"},
		"TCP and UDP of one number":                   {"53/TCP 53/UDP", "", "port-53:53/TCP=53 port-53-udp:53/UDP=53"},
		"TCP and UDP of one number and name":          {"dns:53/TCP dns:53/UDP", "", "dns:53/TCP=53 dns-53:53/UDP=53"},
		"one name of two containers":                  {"http:80/TCP http:81/TCP", "", "http:80/TCP=80 http-81:81/TCP=81"},
		"a name that another port gets by its number": {"80/TCP port-80:81/TCP", "", "port-80-tcp:80/TCP=80 port-80:81/TCP=81"},
		"an init container that restarts":             {"80/TCP", "metrics:90/TCP", "port-80:80/TCP=80 metrics:90/TCP=90"},
		"none":                                        {"", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			spec := &corev1.PodSpec{InitContainers: []corev1.Container{
				{RestartPolicy: new(corev1.ContainerRestartPolicyAlways)}, {Ports: []corev1.ContainerPort{{ContainerPort: 7}}},
			}}
			for _, p := range ports(row.containers) {
				spec.Containers = append(spec.Containers, corev1.Container{Ports: []corev1.ContainerPort{{Name: p.Name, ContainerPort: p.Port, Protocol: p.Protocol}}})
			}
			for _, p := range ports(row.inits) {
				spec.InitContainers[0].Ports = append(spec.InitContainers[0].Ports, corev1.ContainerPort{Name: p.Name, ContainerPort: p.Port})
			}
			var got []string
			for _, p := range inferPorts(spec) {
				got = append(got, fmt.Sprintf("%s:%d/%s=%s", p.Name, p.Port, p.Protocol, p.TargetPort.String()))
			}
			if diff := cmp.Diff(row.want, strings.Join(got, " ")); diff != "" {
				t.Error(diff)
			}
		})
	}
}
