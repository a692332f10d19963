// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package podtemplate

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// reservedDomain is that of Sandbar's own labels.
const reservedDomain = "sandbar.dev"

// check lists, each with its field, what cannot be: fields that are the operator's, and what a
// pod that is started again and again cannot have.
func check(template, base *corev1.PodTemplateSpec, rules Rules) []string {
	w := &walker{pod: &template.Spec, rules: rules}
	w.fields("spec", reflect.ValueOf(template.Spec), reflect.ValueOf(base.Spec))
	problems := slices.Concat(w.problems, checkNumbers(&template.Spec), checkMetadata(template, base, rules))
	if len(problems) > 0 {
		return problems // a sum of requests that are wrong themselves says nothing
	}
	return checkRequests(&template.Spec, &rules.Bounds)
}

// What a tenant's pod may have many of. A quota counts what containers ask for, and not what hundreds of
// them cost the node that starts and watches each.
const (
	maxContainers = 32
	maxVolumes    = 64
)

func checkNumbers(spec *corev1.PodSpec) []string {
	var problems []string
	if n := len(spec.Containers) + len(spec.InitContainers); n > maxContainers {
		problems = append(problems, fmt.Sprintf("spec.containers: %d with those of spec.initContainers are too many; have %d at most", n, maxContainers))
	}
	if n := len(spec.Volumes); n > maxVolumes {
		problems = append(problems, fmt.Sprintf("spec.volumes: %d are too many; have %d at most", n, maxVolumes))
	}
	return problems
}

// checkMetadata keeps a tenant's pod from being taken for what it is not. Annotations have no
// free form at all: container runtimes take orders by annotations that look like a tenant's own
// (io.katacontainers.config…, dev.gvisor.spec…, io.kubernetes.cri-o…).
func checkMetadata(template, base *corev1.PodTemplateSpec, rules Rules) []string {
	var problems []string
	for _, key := range slices.Sorted(maps.Keys(template.Labels)) {
		if _, isBase := base.Labels[key]; isBase && base.Labels[key] == template.Labels[key] {
			continue
		}
		domain, _, hasDomain := strings.Cut(key, "/")
		reserved := domain == reservedDomain || strings.HasSuffix(domain, "."+reservedDomain)
		if hasDomain && (reserved || !hasPrefix(key, rules.LabelPrefixes)) {
			problems = append(problems, fmt.Sprintf("metadata.labels[%q]: is not a tenant's to set; use a key without a domain, or ask the operator to allow it (spec.instanceMetadata.labelPrefixes)", key))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(template.Annotations)) {
		if _, isBase := base.Annotations[key]; isBase && base.Annotations[key] == template.Annotations[key] {
			continue
		}
		if !hasPrefix(key, rules.AnnotationPrefixes) || strings.HasPrefix(key, reservedDomain+"/") {
			problems = append(problems, fmt.Sprintf("metadata.annotations[%q]: is not a tenant's to set; ask the operator to allow it (spec.instanceMetadata.annotationPrefixes)", key))
		}
	}
	rest := template.ObjectMeta.DeepCopy()
	rest.Labels, rest.Annotations = nil, nil
	bare := base.ObjectMeta.DeepCopy()
	bare.Labels, bare.Annotations = nil, nil
	if !equality.Semantic.DeepEqual(rest, bare) {
		problems = append(problems, "metadata: has only labels and annotations")
	}
	return problems
}

func hasPrefix(key string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
}
