// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package clone

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// maxMetadata is how many labels or annotations a tenant may write at one place.
const maxMetadata = 32

// Keys with a domain that need no operator's word.
var (
	// The attack by app.kubernetes.io/instance, which is not one of them: Argo CD takes it for the name of an application
	// of the operator's, which would then be out of sync.
	freeLabels = []string{
		"app.kubernetes.io/name", "app.kubernetes.io/version", "app.kubernetes.io/component", "app.kubernetes.io/part-of",
		"sidecar.istio.io/inject",
	}
	// The attack on all of a domain: sidecar.istio.io/proxyImage and /userVolume choose the image and the volumes of a
	// container that is added after all checks here.
	freeAnnotations = []string{
		"sidecar.istio.io/inject",
		"kubectl.kubernetes.io/default-container", "kubectl.kubernetes.io/default-logs-container",
		"prometheus.io/scrape", "prometheus.io/port", "prometheus.io/path", "prometheus.io/scheme",
	}
)

// metadata is a map of labels or annotations that a tenant has written.
type metadata struct {
	// field is where it is, for messages.
	field string
	set   map[string]string
	// source is what the workload has there; the same value is not the tenant's.
	source map[string]string
	// allowed tells why a key is refused, and what to do; empty if it is allowed.
	allowed     func(key string) string
	annotations bool
}

func (m *metadata) check() error {
	if len(m.set) > max(maxMetadata, len(m.source)+maxMetadata) {
		return refuse(InvalidSpec, "%s: %d are too many; have %d at most", m.field, len(m.set), maxMetadata)
	}
	for _, key := range slices.Sorted(maps.Keys(m.set)) {
		value := m.set[key]
		if theirs, has := m.source[key]; has && theirs == value {
			continue
		}
		at := fmt.Sprintf("%s[%q]", m.field, key)
		if problems := validation.IsQualifiedName(strings.ToLower(key)); len(problems) > 0 {
			return refuse(InvalidSpec, "%s: is not a key: %s", at, strings.Join(problems, "; "))
		}
		if problems := validation.IsValidLabelValue(value); !m.annotations && len(problems) > 0 {
			return refuse(InvalidSpec, "%s: %q is not the value of a label: %s", at, value, strings.Join(problems, "; "))
		}
		if why := m.allowed(key); why != "" {
			return refuse(NotAllowed, "%s: %s", at, why)
		}
	}
	return nil
}

// checkTemplateMetadata looks at what overrides and patch have left of the pod template's metadata.
func (r *rendering) checkTemplateMetadata(source *corev1.PodTemplateSpec) error {
	rest := r.template.ObjectMeta.DeepCopy()
	rest.Labels, rest.Annotations = nil, nil
	if !equality.Semantic.DeepEqual(*rest, corev1.PodTemplateSpec{}.ObjectMeta) {
		return refuse(NotAllowed, "metadata: has only labels and annotations; remove the rest")
	}
	for _, m := range []metadata{
		{field: "metadata.labels", set: r.template.Labels, source: source.Labels, allowed: r.labelAllowed},
		{field: "metadata.annotations", set: r.template.Annotations, source: source.Annotations, allowed: r.annotationAllowed, annotations: true},
	} {
		if err := m.check(); err != nil {
			return err
		}
	}
	return nil
}

// labelAllowed decides about a label. Those without a domain are a tenant's own. With a domain, they are orders to what
// runs on the cluster: which queue, which mesh, which identity.
func (r *rendering) labelAllowed(key string) string {
	switch {
	case ownDomain(key), key == placement.LabelManagedBy:
		return "is Sandbar's own; remove it"
	case slices.Contains(lifeLabels, key):
		return "is written by the controller of a workload; remove it"
	case !strings.Contains(key, "/"), slices.Contains(freeLabels, key), hasPrefix(key, r.Rules.LabelPrefixes):
		return ""
	}
	return "is not a tenant's to set; use a key without a domain, or ask the operator to allow it (spec.instanceMetadata.labelPrefixes)"
}

// annotationAllowed decides about an annotation. Container runtimes and network plugins take orders by annotations, also
// by some without a slash (io.katacontainers.config…): hence neither a slash nor a dot is what is free.
func (r *rendering) annotationAllowed(key string) string {
	switch {
	case ownDomain(key):
		return "is Sandbar's own; remove it"
	case slices.Contains(lifeAnnotations, key):
		return "is written by the controller of a workload; remove it"
	case !strings.ContainsAny(key, "/."), slices.Contains(freeAnnotations, key), hasPrefix(key, r.Rules.AnnotationPrefixes):
		return ""
	}
	return "is not a tenant's to set; use a key without a domain, or ask the operator to allow it (spec.instanceMetadata.annotationPrefixes)"
}

func hasPrefix(key string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return prefix != "" && strings.HasPrefix(key, prefix) })
}
