// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"crypto/sha256"
	"encoding/hex"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// Annotations on the APIExport. kcp copies what begins with extra.apis.kcp.io to every
// APIBinding, so that a client needs nothing but its own workspace to find the data plane.
const (
	AnnotationDataPlaneURL = "extra.apis.kcp.io/dataplane-url"
	// AnnotationDataPlaneCA is the lower-case hexadecimal SHA-256 of the PEM bundle, byte for
	// byte as in spec.dataPlane.caBundle. It is absent when there is no bundle.
	AnnotationDataPlaneCA = "extra.apis.kcp.io/dataplane-ca-sha256"
)

// requiredImages are the images that the built-in Templates use. Their keys are always in the
// ConfigMap, so that a graph that reads one waits for no key.
var requiredImages = []string{"node", "postgres", "python", "redis", "runner", "webAppAPI", "webAppWeb"}

// ConfigMapData is what graphs can read from the ConfigMap sandbar-platform. Every key but
// those of further images is always there; what is not set is empty.
func ConfigMapData(spec *sandbarv1alpha1.InfrastructureProviderSpec) map[string]string {
	data := map[string]string{
		"dataPlaneURL":     spec.DataPlane.URL,
		"runtimeClassName": spec.Isolation.RuntimeClassName,
		"baseDomain":       "",
		"gatewayName":      "",
		"gatewayNamespace": "",
	}
	if preview := spec.Preview; preview != nil {
		data["baseDomain"] = preview.BaseDomain
		if gateway := preview.GatewayRef; gateway != nil {
			data["gatewayName"], data["gatewayNamespace"] = gateway.Name, gateway.Namespace
		}
	}
	for _, name := range requiredImages {
		data[name+"Image"] = ""
	}
	for name, image := range spec.Images {
		data[name+"Image"] = image
	}
	return data
}

// ExportAnnotations are the annotations of the APIExport. An empty value means that the
// annotation must be absent.
func ExportAnnotations(spec *sandbarv1alpha1.InfrastructureProviderSpec) map[string]string {
	fingerprint := ""
	if len(spec.DataPlane.CABundle) > 0 {
		sum := sha256.Sum256(spec.DataPlane.CABundle)
		fingerprint = hex.EncodeToString(sum[:])
	}
	return map[string]string{
		AnnotationDataPlaneURL: spec.DataPlane.URL,
		AnnotationDataPlaneCA:  fingerprint,
	}
}
