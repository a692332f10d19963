// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package netcheck

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sandbar-dev/sandbar/pkg/netcheck"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// Further reasons of the condition DNSReachable.
const (
	ReasonResolved   = "NamesResolve"
	ReasonNotAllowed = "NotAllowed"
	ReasonNoAnswer   = "NoAnswer"
	ReasonNotInForce = "PolicyNotInForce"
	ReasonPending    = "Pending"
)

const (
	fieldOwner = "sandbar-controllers"
	// maxFinding is in bytes: enough for the three servers that a resolver's configuration has at most.
	maxFinding = 256
)

// EgressPods selects the pod under the egress policy of placements. To it, its placement is itself alone, so
// that the other pods here are those of others, which the policy forbids.
func EgressPods() metav1.LabelSelector {
	return metav1.LabelSelector{MatchLabels: map[string]string{labelPod: podDNS}}
}

// beginDNS puts the policy in place, and then starts the pods that look up a name. The pod open is what the
// policy forbids: the lookup counts once that cannot be reached.
func (c *checker) beginDNS(ctx context.Context, open string) error {
	if c.settings.Egress == nil {
		return nil
	}
	if err := c.applyEgress(ctx); err != nil {
		return err
	}
	return errors.Join(c.start(ctx, podDNS, "netcheck", "resolve", open), c.start(ctx, podFreeDNS, "netcheck", "resolve", netcheck.None))
}

// applyEgress writes the egress policy as the settings have it now.
func (c *checker) applyEgress(ctx context.Context) error {
	policy := &networkingv1.NetworkPolicy{
		TypeMeta: metav1.TypeMeta{APIVersion: networkingv1.SchemeGroupVersion.String(), Kind: "NetworkPolicy"},
		ObjectMeta: metav1.ObjectMeta{
			Name: podDNS, Namespace: c.namespace, Labels: map[string]string{placement.LabelManagedBy: placement.ManagedBy},
		},
		Spec: *c.settings.Egress,
	}
	raw, err := json.Marshal(policy)
	if err != nil {
		return fmt.Errorf("writing the egress policy: %w", err)
	}
	_, err = c.client.NetworkingV1().NetworkPolicies(c.namespace).Patch(ctx, podDNS, types.ApplyPatchType, raw,
		metav1.PatchOptions{FieldManager: fieldOwner, Force: new(true)})
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return fmt.Errorf("writing the egress policy (after an upgrade, run sandbar-provider init again): %w", err)
	}
	if err != nil {
		return fmt.Errorf("writing the egress policy: %w", err)
	}
	return nil
}

// endDNS waits for the pods that look up a name.
func (c *checker) endDNS(ctx context.Context, policies Result) (Result, error) {
	if c.settings.Egress == nil {
		return Result{}, nil
	}
	if policies.Reason == ReasonNoNetwork {
		return Result{metav1.ConditionUnknown, ReasonNoNetwork, "pods that no policy is about do not reach each other, so nothing can be said of DNS: look at the runtime cluster's network"}, nil
	}
	started := true
	pods, err := c.until(ctx, "pods that look up a name to end", func(pods map[string]*corev1.Pod) bool {
		started = pods[podDNS] != nil && pods[podFreeDNS] != nil
		return !started || ended(pods[podDNS]) != nil && ended(pods[podFreeDNS]) != nil
	})
	if err != nil {
		return Result{}, err
	}
	if !started {
		return Result{}, errors.New("a pod that looks up a name was deleted")
	}
	if !ready(pods[podOpen]) {
		return Result{}, errors.New("a pod that listens did not stay ready")
	}
	under := ended(pods[podDNS])
	return judgeDNS(int(under.ExitCode), int(ended(pods[podFreeDNS]).ExitCode), finding(under.Message), allowed(*c.settings.Egress))
}

// judgeDNS says what the exit codes of the two pods that look up a name mean together. Found is what the one
// under the policy says of its servers, and allows where the policy has DNS.
func judgeDNS(under, free int, found, allows string) (Result, error) {
	const unknown = "a pod that looks up a name ended with exit code %d: %s"
	if under != netcheck.Resolved && under != netcheck.Unresolved && under != netcheck.Unconfined {
		return Result{}, fmt.Errorf(unknown, under, wrongRunner)
	}
	if free != netcheck.Resolved && free != netcheck.Unresolved {
		return Result{}, fmt.Errorf(unknown, free, wrongRunner)
	}
	if found != "" {
		found = " (" + found + ")"
	}
	switch {
	case under == netcheck.Resolved:
		return Result{metav1.ConditionTrue, ReasonResolved, "a pod under the egress policy of placements resolves " + netcheck.Name}, nil
	case under == netcheck.Unconfined:
		return Result{
			metav1.ConditionUnknown, ReasonNotInForce, "a pod under the egress policy of placements reaches a pod that the policy forbids, so nothing can be said of DNS. " +
				"See the condition NetworkPolicyEnforced; if it is True, the addresses of pods are public ones: name their ranges in spec.isolation.egress.deniedCIDRs",
		}, nil
	case free == netcheck.Resolved:
		return Result{
			metav1.ConditionFalse, ReasonNotAllowed, "sandboxes resolve no names: a pod without a policy resolves " + netcheck.Name + ", and one under the egress policy of placements does not" + found + ". " +
				"The policy allows DNS at " + allows + ". Correct spec.isolation.egress.dns of the InfrastructureProvider; sandbar-provider init reports where it finds the cluster's DNS (docs/operating.md#dns)",
		}, nil
	default:
		return Result{
			metav1.ConditionFalse, ReasonNoAnswer, "sandboxes resolve no names: a pod without a policy does not resolve " + netcheck.Name + " either" + found + ". " +
				"Look at the runtime cluster's DNS; this is tried again within ten minutes",
		}, nil
	}
}

func failedDNS(err error) Result {
	return Result{metav1.ConditionUnknown, ReasonFailed, "whether sandboxes resolve names could not be tried: " + err.Error() + "; it is tried again within ten minutes"}
}

// ofDNS is the result, if there is anything to say of DNS.
func (c *checker) ofDNS(result Result) Result {
	if c.settings.Egress == nil {
		return Result{}
	}
	return result
}

// finding is what a pod says, on one line of bounded length: a container writes it.
func finding(message string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(message), "\n")
	line = strings.ToValidUTF8(line, "?")
	if len(line) > maxFinding {
		line = strings.ToValidUTF8(line[:maxFinding], "") + "…"
	}
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, line)
}

// allowed says to whom a policy allows certain ports, which is DNS and nothing else.
func allowed(policy networkingv1.NetworkPolicySpec) string {
	var all []string
	for _, rule := range policy.Egress {
		if len(rule.Ports) == 0 {
			continue
		}
		var ports []string
		for _, port := range rule.Ports {
			if *port.Protocol == corev1.ProtocolUDP {
				ports = append(ports, port.Port.String())
			}
		}
		at := " at port " + strings.Join(ports, ", ")
		for _, peer := range rule.To {
			if peer.IPBlock != nil {
				all = append(all, peer.IPBlock.CIDR+at)
				continue
			}
			all = append(all, fmt.Sprintf("the pods %s of namespace %s%s", metav1.FormatLabelSelector(peer.PodSelector),
				peer.NamespaceSelector.MatchLabels[corev1.LabelMetadataName], at))
		}
	}
	return strings.Join(all, "; ")
}
