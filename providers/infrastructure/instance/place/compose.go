// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package place

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sandbar-dev/sandbar/pkg/contract"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/lifecycle"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
)

// reservedDomains are domains whose labels and annotations mean something to Sandbar, kro,
// kcp or Kubernetes. A tenant that could set them would forge ownership or steer kro.
var reservedDomains = []string{ownDomain, "kubernetes.io", "k8s.io", "kro.run", "kcp.io"}

// ownDomain is Sandbar's own.
const ownDomain = "sandbar.dev"

// BuildInstance builds the kro instance: the tenant's spec as the lifecycle has it, and of its
// metadata what the operator's allow-list names.
func BuildInstance(s *scope.Scope, d lifecycle.Decision) *unstructured.Unstructured {
	obj := s.NewComposed()
	obj.SetNamespace(s.Placement().Namespace())
	obj.SetName(s.Placement().InstanceName())

	metadata := s.Infrastructure().InstanceMetadata
	labels := allowed(s.Object().GetLabels(), metadata.LabelPrefixes)
	maps.Copy(labels, s.Placement().Labels(s.Template())) // ours last: they win
	obj.SetLabels(labels)
	annotations := allowed(s.Object().GetAnnotations(), metadata.AnnotationPrefixes)
	maps.Copy(annotations, s.Annotations())
	if cause := d.Suspended; cause != "" {
		annotations[placement.AnnotationSuspension] = string(cause)
	}
	obj.SetAnnotations(annotations)
	obj.Object["spec"] = buildSpec(s, d)
	return obj
}

// buildSpec builds the spec of the kro instance: the tenant's, without what kro's kind does not
// have, and with what the lifecycle makes of it.
func buildSpec(s *scope.Scope, d lifecycle.Decision) map[string]any {
	spec, _, _ := unstructured.NestedMap(s.Object().Object, "spec") // a copy
	if spec == nil {
		spec = map[string]any{}
	}
	delete(spec, contract.LifecycleField)
	if s.Pod() != nil {
		delete(spec, contract.PrewarmField)
		delete(spec, contract.ResizeField)
		delete(spec, contract.StartTimeoutField)
		delete(spec, contract.EnvField)
		delete(spec, contract.EnvFromField)
	}
	spec["suspended"] = d.Suspended != ""
	if d.Rests && d.Suspended == "" {
		spec["replicas"] = int64(d.MinReplicas)
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
	return slices.ContainsFunc(reservedDomains, func(reserved string) bool { return isOf(key, reserved) })
}

// isOf reports whether a key is of a domain or of one below it.
func isOf(key, domain string) bool {
	of, _, ok := strings.Cut(key, "/")
	return ok && (of == domain || strings.HasSuffix(of, "."+domain))
}

// Ours reports whether a label or an annotation of a kro instance is one that BuildInstance writes, and takes away again.
// kro has its own.
func Ours(key string) bool { return !reserved(key) || isOf(key, ownDomain) }
