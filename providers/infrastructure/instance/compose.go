// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sandbar-dev/sandbar/pkg/contract"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// reservedDomains are domains whose labels and annotations mean something to Sandbar, kro,
// kcp or Kubernetes. A tenant that could set them would forge ownership or steer kro.
var reservedDomains = []string{"sandbar.dev", "kubernetes.io", "k8s.io", "kro.run", "kcp.io"}

// buildInstance builds the kro instance: the tenant's spec as the lifecycle has it, and of its
// metadata what the operator's allow-list names.
func buildInstance(s *scope) *unstructured.Unstructured {
	obj := s.newObject()
	obj.SetNamespace(s.id.Namespace())
	obj.SetName(s.object.GetName())

	metadata := s.infrastructure.InstanceMetadata
	labels := allowed(s.object.GetLabels(), metadata.LabelPrefixes)
	maps.Copy(labels, s.id.Labels(s.template)) // ours last: they win
	obj.SetLabels(labels)
	annotations := allowed(s.object.GetAnnotations(), metadata.AnnotationPrefixes)
	maps.Copy(annotations, s.annotations())
	if cause := s.decision.suspended; cause != "" {
		annotations[placement.AnnotationSuspension] = string(cause)
	}
	obj.SetAnnotations(annotations)
	obj.Object["spec"] = buildSpec(s)
	return obj
}

// buildSpec builds the spec of the kro instance: the tenant's, without what kro's kind does not
// have, and with what the lifecycle makes of it.
func buildSpec(s *scope) map[string]any {
	spec, _, _ := unstructured.NestedMap(s.object.Object, "spec") // a copy
	if spec == nil {
		spec = map[string]any{}
	}
	delete(spec, contract.LifecycleField)
	spec["suspended"] = s.decision.suspended != ""
	if s.decision.rests && s.decision.suspended == "" {
		spec["replicas"] = int64(s.decision.minReplicas)
	}
	return spec
}

// allowed returns the entries whose key has one of the prefixes and no reserved domain.
func allowed(entries map[string]string, allowedPrefixes []string) map[string]string {
	out := map[string]string{}
	for key, value := range entries {
		hasPrefix := func(prefix string) bool { return strings.HasPrefix(key, prefix) }
		if slices.ContainsFunc(allowedPrefixes, hasPrefix) && !reserved(key) {
			out[key] = value
		}
	}
	return out
}

func reserved(key string) bool {
	domain, _, ok := strings.Cut(key, "/")
	if !ok {
		return false
	}
	return slices.ContainsFunc(reservedDomains, func(reserved string) bool {
		return domain == reserved || strings.HasSuffix(domain, "."+reserved)
	})
}
