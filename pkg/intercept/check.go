// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package intercept

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/baseline"
	"github.com/sandbar-dev/sandbar/pkg/route"
)

// MaxPorts is how many ports a Service that is intercepted has at most.
const MaxPorts = 32

func refuse(reason, format string, args ...any) error {
	return &route.RefusedError{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

func invalid(format string, args ...any) error {
	return refuse(sandbarv1alpha1.RouteInvalidSpec, format, args...)
}

// Check refuses a Service in front of which no proxy can stand, with a *route.RefusedError. s is as its owner has it (AsOwned).
func Check(s *corev1.Service) error {
	if err := checkKind(s); err != nil {
		return err
	}
	if err := checkSelector(s); err != nil {
		return err
	}
	if n := len(s.Spec.Ports); n == 0 || n > MaxPorts {
		return invalid("Service %s has %d ports: a proxy can stand in front of one with 1 to %d", s.Name, n, MaxPorts)
	}
	for _, p := range s.Spec.Ports {
		if p.Protocol != "" && p.Protocol != corev1.ProtocolTCP {
			return invalid("Service %s has the port %d of %s: a proxy passes TCP alone; give that port a Service of its own", s.Name, p.Port, p.Protocol)
		}
	}
	return nil
}

// checkKind refuses a Service whose requests do not come to the pods of its selector, or not from all nodes.
func checkKind(s *corev1.Service) error {
	local := s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
	switch {
	case IsOurs(s.Labels):
		return invalid("Service %s is one that Sandbar has made for a proxy: name the Service in front of which that one stands", s.Name)
	case s.Spec.Type == corev1.ServiceTypeExternalName:
		return invalid("Service %s is an ExternalName, a name of another host: requests to it do not pass the cluster's Services; use the provider gateway", s.Name)
	case s.Spec.ClusterIP == corev1.ClusterIPNone:
		return invalid("Service %s is headless: its clients call pods and not the Service, so that a proxy would see none of their requests", s.Name)
	case local && (s.Spec.Type == corev1.ServiceTypeNodePort || s.Spec.Type == corev1.ServiceTypeLoadBalancer):
		return invalid("Service %s has externalTrafficPolicy Local: nodes without a proxy would drop what comes from outside, and the address of the client would be lost, which that policy is there to keep", s.Name)
	case s.Spec.InternalTrafficPolicy != nil && *s.Spec.InternalTrafficPolicy == corev1.ServiceInternalTrafficPolicyLocal:
		return invalid("Service %s has internalTrafficPolicy Local: pods on nodes without a proxy would not reach it", s.Name)
	case s.Spec.SessionAffinity == corev1.ServiceAffinityClientIP:
		return invalid("Service %s has sessionAffinity ClientIP: its pods would get all requests from the addresses of the two proxies, so that neither a client would stay with its pod nor the load be shared; use None, if clients may change pods", s.Name)
	case s.Spec.PublishNotReadyAddresses:
		return invalid("Service %s has publishNotReadyAddresses: it would lead to proxies that are not ready", s.Name)
	}
	return nil
}

func checkSelector(s *corev1.Service) error {
	if len(s.Spec.Selector) == 0 {
		return invalid("Service %s has no selector: somebody else writes its endpoints, and a proxy could not come in between", s.Name)
	}
	// The proxies would be among the original pods, and lead requests to themselves.
	ours := Labels(s.Name)
	for key, value := range s.Spec.Selector {
		if ours[key] != value {
			return nil
		}
	}
	return invalid("the selector of Service %s also chooses pods of Sandbar: select by a label of the workload's own", s.Name)
}

// Admit reports by its error, a *route.RefusedError, that a Baseline does not admit a proxy in front of a Service, which field
// names by the alias of its namespace. It returns the namespace on the runtime cluster.
//
// It is the one place that decides in front of which Services a tenant may have a proxy. The attack: a SandboxRoute that names a
// Service of another system, kube-dns for example, has its pods replaced.
func Admit(field string, b *sandbarv1alpha1.Baseline, alias string) (namespace string, err error) {
	if !b.Spec.Routing.Proxy.Enabled {
		return "", refuse(sandbarv1alpha1.RouteProviderUnavailable,
			"spec.provider: Baseline %s does not admit proxies: use the provider gateway, or ask the operator to enable spec.routing.proxy of the Baseline", b.Name)
	}
	if !b.Spec.Network.IsReachableFromBaseline() {
		return "", refuse(sandbarv1alpha1.RouteNotAllowed,
			"spec.provider: the pods of Baseline %s, and so its proxies, do not reach copies: ask the operator to set spec.network.reachableFromBaseline of the Baseline", b.Name)
	}
	namespace, ok := baseline.Namespace(&b.Spec, alias)
	if !ok {
		return "", refuse(sandbarv1alpha1.RouteNotAllowed, "%s.namespace: Baseline %s has no namespace %s; it has %s", field, b.Name, alias, listed(baseline.Aliases(&b.Spec)))
	}
	return namespace, nil
}

// AdmitService is the second half of Admit: whether the Service, as it was read, is one of the Baseline's.
func AdmitService(field string, b *sandbarv1alpha1.Baseline, s *corev1.Service) error {
	_, services, err := baseline.Filters(&b.Spec)
	if err != nil {
		return refuse(sandbarv1alpha1.RouteNotAllowed, "%s: which Services Baseline %s has cannot be told, since its %v: ask the operator", field, b.Name, err)
	}
	if !services.Admits(s.Name, s.Labels) {
		return refuse(sandbarv1alpha1.RouteNotAllowed, "%s.name: Service %s is not one of Baseline %s: name another one (sandbar baselines %[3]s), or ask the operator", field, s.Name, b.Name)
	}
	return nil
}

// maxListed is how many entries a message has before it counts the rest.
const maxListed = 5

func listed(entries []string) string {
	slices.Sort(entries)
	switch n := len(entries); {
	case n == 0:
		return "none"
	case n > maxListed:
		return fmt.Sprintf("%v and %d more", entries[:maxListed], n-maxListed)
	}
	return fmt.Sprint(entries)
}
