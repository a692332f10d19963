// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"fmt"
	"strings"
	"testing"
)

func TestAGraphMakesAndReadsOnlyWhatIsForPlacements(t *testing.T) {
	const made, read = `{"resources":[{"id":"a","template":{"apiVersion":%q,"kind":%q}}]}`, `{"resources":[{"id":"a","externalRef":{"apiVersion":%q,"kind":%q}}]}`
	for _, tc := range []struct{ form, apiVersion, kind, want string }{
		{made, "v1", "Pod", ""},
		{made, "v1", "Secret", ""},
		{made, "apps/v1", "StatefulSet", ""},
		{made, "batch/v1", "CronJob", ""},
		{made, "policy/v1", "PodDisruptionBudget", ""},
		{made, "networking.k8s.io/v1", "NetworkPolicy", ""},
		{made, "gateway.networking.k8s.io/v1beta1", "ReferenceGrant", ""},
		{made, "agents.x-k8s.io/v1alpha1", "Sandbox", ""},
		{made, "postgresql.cnpg.io/v1", "Cluster", ""},
		{made, "v1", "Namespace", ".template.kind: Namespace of v1 is not for graphs"},
		{made, "/v1", "ConfigMap", `.template.apiVersion: must be such as v1 or apps/v1, in plain text, not "/v1"`},
		{made, "/v1", "Namespace", ".template.apiVersion: must be such as"},
		{made, "", "Pod", ".template.apiVersion: must be such as"},
		{made, "${schema.spec.a}", "ConfigMap", ".template.apiVersion: must be such as"},
		{made, "a.${schema.spec.a}/v1", "Pod", ".template.apiVersion: must be such as"},
		{made, "v1", "${schema.spec.a}", ".template.kind: ${schema.spec.a} of v1"},
		{made, "v1", "PersistentVolume", ".template.kind: "},
		{made, "v1", "Endpoints", ".template.kind: "},
		{made, "discovery.k8s.io/v1", "EndpointSlice", ".template.kind: "},
		{made, "networking.k8s.io/v1", "IngressClass", ".template.kind: "},
		{made, "gateway.networking.k8s.io/v1", "GatewayClass", ".template.kind: "},
		{made, "rbac.authorization.k8s.io/v1", "ClusterRoleBinding", ".template.kind: "},
		{made, "scheduling.k8s.io/v1", "PriorityClass", ".template.kind: "},
		{made, "kro.run/v1alpha1", "ResourceGraphDefinition", ".template.kind: "},
		{made, "internal.kro.run/v1alpha1", "GraphRevision", ".template.kind: "},
		{read, "v1", "ConfigMap", ""},
		{read, "v1", "Secret", ".externalRef: must be of apiVersion v1 and kind ConfigMap, not \"v1\" and \"Secret\""},
		{read, "/v1", "Secret", ".externalRef: must be"},
		{read, "apps/v1", "Deployment", ".externalRef: must be"},
		{read, "", "ConfigMap", ".externalRef: must be"},
	} {
		problems := checkResources(fmt.Appendf(nil, tc.form, tc.apiVersion, tc.kind))
		if tc.want == "" && len(problems) > 0 {
			t.Errorf("%s %s: %v", tc.apiVersion, tc.kind, problems)
		}
		if tc.want != "" && (len(problems) != 1 || !strings.HasPrefix(problems[0].String(), "spec.graph.resources[0]"+tc.want)) {
			t.Errorf("%s %s: %v, want one with %q", tc.apiVersion, tc.kind, problems, tc.want)
		}
	}
	if problems := checkResources([]byte(`{"resources":{}}`)); len(problems) != 1 {
		t.Errorf("resources that are no list: %v", problems)
	}
}
