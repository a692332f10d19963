// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

func TestEveryKeyThatGraphsReadIsAlwaysThere(t *testing.T) {
	for name, tc := range map[string]struct {
		spec sandbarv1alpha1.InfrastructureProviderSpec
		want map[string]string
	}{
		"nothing but a URL": {
			sandbarv1alpha1.InfrastructureProviderSpec{DataPlane: sandbarv1alpha1.DataPlaneAddress{URL: "https://dp"}},
			map[string]string{
				"dataPlaneURL": "https://dp", "runtimeClassName": "", "baseDomain": "", "gatewayName": "", "gatewayNamespace": "",
				"runnerImage": "", "nodeImage": "", "redisImage": "", "pythonImage": "", "postgresImage": "", "webAppAPIImage": "", "webAppWebImage": "",
			},
		},
		"everything": {
			sandbarv1alpha1.InfrastructureProviderSpec{
				DataPlane: sandbarv1alpha1.DataPlaneAddress{URL: "https://dp"},
				Images:    map[string]string{"runner": "r", "python": "p"},
				Isolation: sandbarv1alpha1.Isolation{RuntimeClassName: "gvisor"},
				Preview: &sandbarv1alpha1.Preview{
					BaseDomain: "preview.test", GatewayRef: &sandbarv1alpha1.GatewayReference{Name: "public", Namespace: "gw"},
				},
			},
			map[string]string{
				"dataPlaneURL": "https://dp", "runtimeClassName": "gvisor",
				"baseDomain": "preview.test", "gatewayName": "public", "gatewayNamespace": "gw",
				"runnerImage": "r", "nodeImage": "", "redisImage": "", "pythonImage": "p",
				"postgresImage": "", "webAppAPIImage": "", "webAppWebImage": "",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, ConfigMapData(&tc.spec)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheExportTellsTheURLAndTheBundlesFingerprint(t *testing.T) {
	spec := sandbarv1alpha1.InfrastructureProviderSpec{DataPlane: sandbarv1alpha1.DataPlaneAddress{URL: "https://dp"}}
	want := map[string]string{AnnotationDataPlaneURL: "https://dp", AnnotationDataPlaneCA: ""}
	if diff := cmp.Diff(want, ExportAnnotations(&spec)); diff != "" {
		t.Errorf("without a bundle (-want +got):\n%s", diff)
	}
	spec.DataPlane.CABundle = []byte("abc")
	want[AnnotationDataPlaneCA] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" // FIPS 180-2, B.1
	if diff := cmp.Diff(want, ExportAnnotations(&spec)); diff != "" {
		t.Errorf("with a bundle (-want +got):\n%s", diff)
	}
}
