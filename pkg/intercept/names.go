// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package intercept

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/sandbar-dev/sandbar/pkg/placement"
)

const (
	// RoutesConfigMap is the ConfigMap, in the namespace of the Services, in which each SandboxRoute says what it asks of the
	// proxies, and the controllers what they have done. The proxies have no right to read it.
	RoutesConfigMap = "sandbar-proxy-routes"
	// Account is the ServiceAccount of the proxies.
	Account = "sandbar-proxy"
	// LabelService is on all that stands for an intercepted Service, and holds its name; it is also what the selector of an
	// intercepted Service asks for. Its one key is Sandbar's own, so that a selector of the owner's that somebody merges
	// into it can be told from it.
	LabelService = placement.LabelIntercepts
	// AnnotationOriginal on an intercepted Service holds the selector that it had, as JSON with sorted keys. It is all that a
	// restore needs.
	AnnotationOriginal = "sandbar.dev/original-selector"
	// Image is the key of the image of the proxies in InfrastructureProvider.spec.images.
	Image = "proxy"
	// FieldOwner is the manager of the fields that the controllers write.
	FieldOwner = "sandbar"
)

const (
	proxyPrefix    = "sandbar-proxy-"
	baselineSuffix = "-sandbar-baseline"
	// nameHash is how many characters of a hash stand in a name that was cut.
	nameHash = 10
)

// ProxyName is the name of the Deployment of the proxies of a Service, and of its PodDisruptionBudget.
func ProxyName(service string) string {
	return proxyPrefix + cut(service, validation.DNS1123LabelMaxLength-len(proxyPrefix))
}

// BaselineName is the name of the Service that has the original pods of a Service.
func BaselineName(service string) string {
	return cut(service, validation.DNS1035LabelMaxLength-len(baselineSuffix)) + baselineSuffix
}

// cut shortens a name to at most a number of characters. One that is cut has a hash of the whole in it.
func cut(name string, most int) string {
	if len(name) <= most {
		return name
	}
	return strings.TrimRight(name[:most-nameHash-1], "-") + "-" + hashOf([]byte(name))[:nameHash]
}

func hashOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// Labels are those of what stands for an intercepted Service.
func Labels(service string) map[string]string {
	return map[string]string{
		LabelService: service, placement.LabelManagedBy: placement.ManagedBy, "app.kubernetes.io/name": Account,
	}
}

// Selector chooses the proxies of a Service.
func Selector(service string) map[string]string { return map[string]string{LabelService: service} }

// IsOurs reports whether labels are those of what stands for an intercepted Service, and so of nothing that a Baseline offers.
func IsOurs(labels map[string]string) bool {
	return labels[LabelService] != "" && labels[placement.LabelManagedBy] == placement.ManagedBy
}
