// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package clone

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// changed renders a copy of testdata/sources/narrow.yaml with one field changed; with an empty value, it is removed.
func changed(t *testing.T, path, value string) error {
	t.Helper()
	operation := sandbarv1alpha1.PatchOperation{Op: "remove", Path: path}
	if value != "" {
		operation = sandbarv1alpha1.PatchOperation{Op: "add", Path: path, Value: &runtime.RawExtension{Raw: []byte(value)}}
	}
	_, err := Render(input(t, &row{Source: "narrow", Component: sandbarv1alpha1.SandboxGroupComponent{
		Name: "web", PodTemplatePatch: []sandbarv1alpha1.PatchOperation{operation},
	}}))
	return err
}

func TestWhatATenantMayChange(t *testing.T) {
	const app = "/spec/containers/0"
	for _, row := range []struct{ path, value string }{
		{"/spec/securityContext/runAsUser", "1000"},
		{"/spec/securityContext/fsGroup", "1000"},
		{"/spec/securityContext/runAsNonRoot", "true"},
		{app + "/securityContext/privileged", ""},
		{app + "/securityContext/privileged", "false"},
		{app + "/securityContext/allowPrivilegeEscalation", "false"},
		{app + "/securityContext/procMount", `"Default"`},
		{app + "/securityContext/capabilities", ""},
		{app + "/securityContext/capabilities", `{"add": ["NET_RAW"], "drop": ["ALL"]}`},
		{app + "/securityContext/seccompProfile", `{"type": "RuntimeDefault"}`},
		{app + "/securityContext/appArmorProfile", `{"type": "RuntimeDefault"}`},
		{app + "/securityContext/readOnlyRootFilesystem", "true"},
		{app + "/volumeMounts/0/subPathExpr", ""},
		{app + "/volumeMounts/0/mountPropagation", ""},
		{app + "/volumeMounts/0/mountPropagation", `"None"`},
		{app + "/volumeMounts/0/readOnly", "true"},
		{app + "/volumeMounts/1/subPath", `"b"`},
		{app + "/env/2/valueFrom/fieldRef/fieldPath", `"status.podIP"`},
		{app + "/env/2/valueFrom", ""},
		{app + "/resources", ""},
		{app + "/resources/limits", `{"memory": "0", "cpu": "1"}`},
		{app + "/resources/requests", `{"cpu": "100m", "ephemeral-storage": "1Gi"}`},
		{app + "/livenessProbe", ""},
		{app + "/livenessProbe/httpGet/host", ""},
		{app + "/livenessProbe/httpGet/path", `"/healthz"`},
		{app + "/livenessProbe/terminationGracePeriodSeconds", ""},
		{app + "/livenessProbe/terminationGracePeriodSeconds", "300"},
		{app + "/lifecycle/postStart", `{"httpGet": {"port": 80}}`},
		{app + "/ports/-", `{"containerPort": 81}`},
		{app + "/tty", "true"},
		{"/spec/volumes/0/emptyDir/medium", `"Memory"`},
		{"/spec/volumes/0/emptyDir/medium", ""},
		{"/spec/volumes/0/emptyDir/sizeLimit", `"2Gi"`},
		{"/spec/volumes/0/emptyDir/sizeLimit", ""},
		{"/spec/volumes/-", `{"name": "b", "downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}}`},
		{"/spec/volumes/-", `{"name": "b", "projected": {"sources": [{"downwardAPI": {"items": [{"path": "cpu", "resourceFieldRef": {"resource": "limits.cpu", "containerName": "app"}}]}}]}}`},
		{"/spec/dnsPolicy", `"ClusterFirst"`},
		{"/spec/dnsPolicy", `"None"`},
		{"/spec/terminationGracePeriodSeconds", "300"},
		{"/spec/restartPolicy", `"Always"`},
		{"/spec/shareProcessNamespace", "true"},
		{"/spec/nodeSelector", `{"kubernetes.io/arch": "arm64"}`},
		{"/spec/containers/-", `{"name": "debug", "image": "ghcr.io/acme/app:2", "securityContext": {"runAsNonRoot": true, "runAsUser": 5, "capabilities": {"drop": ["ALL"]}}}`},
	} {
		if err := changed(t, row.path, row.value); err != nil {
			t.Errorf("%s %s: %v", row.path, row.value, err)
		}
	}
}

func TestWhatATenantMayNotChange(t *testing.T) {
	const app = "/spec/containers/0"
	for _, row := range []struct{ path, value, field string }{
		{"/spec/securityContext/runAsGroup", "", "spec.securityContext.runAsGroup"},
		{"/spec/securityContext/runAsGroup", "0", "spec.securityContext.runAsGroup"},
		{"/spec/securityContext/fsGroup", "0", "spec.securityContext.fsGroup"},
		{"/spec/securityContext/supplementalGroups", "[0, 5]", "spec.securityContext.supplementalGroups"},
		{"/spec/securityContext/supplementalGroupsPolicy", "", "spec.securityContext.supplementalGroupsPolicy"},
		{"/spec/securityContext/supplementalGroupsPolicy", `"Merge"`, "spec.securityContext.supplementalGroupsPolicy"},
		{"/spec/securityContext/seccompProfile", "", "spec.securityContext.seccompProfile"},
		{"/spec/securityContext/seccompProfile/type", `"Unconfined"`, "spec.securityContext.seccompProfile"},
		{"/spec/hostUsers", "", "spec.hostUsers"},
		{"/spec/hostUsers", "true", "spec.hostUsers"},
		{"/spec/dnsPolicy", `"ClusterFirstWithHostNet"`, "spec.dnsPolicy"},
		{app + "/securityContext/capabilities/add/-", `"SYS_ADMIN"`, "spec.containers[0].securityContext.capabilities"},
		{app + "/securityContext/appArmorProfile", `{"type": "Localhost", "localhostProfile": "a"}`, "spec.containers[0].securityContext.appArmorProfile"},
		{app + "/volumeMounts/1/subPathExpr", `"$(A)"`, "spec.containers[0].volumeMounts[1].subPathExpr"},
		{app + "/volumeMounts/0/mountPropagation", `"Bidirectional"`, "spec.containers[0].volumeMounts[0].mountPropagation"},
		{app + "/env/2/valueFrom/fieldRef/fieldPath", `"status.hostIP"`, "spec.containers[0].env[2].valueFrom.fieldRef"},
		{app + "/env/0/valueFrom", `{"fieldRef": {"fieldPath": "spec.nodeName"}}`, "spec.containers[0].env[0].valueFrom.fieldRef"},
		{app + "/resources/limits/memory", `"0.5m"`, ""}, // above zero: the placement has a minimum
		{app + "/resources/limits/cpu", `"0"`, "spec.containers[0].resources"},
		{app + "/resources/limits/example.com~1gpu", `"3"`, "spec.containers[0].resources"},
		{app + "/resources/claims", `[{"name": "a"}]`, "spec.containers[0].resources"},
		{app + "/livenessProbe/httpGet/host", `"10.0.0.2"`, "spec.containers[0].livenessProbe.httpGet.host"},
		{app + "/livenessProbe/terminationGracePeriodSeconds", "401", "spec.containers[0].livenessProbe.terminationGracePeriodSeconds"},
		{app + "/startupProbe", `{"tcpSocket": {"host": "10.0.0.1", "port": 80}}`, "spec.containers[0].startupProbe.tcpSocket.host"},
		{app + "/lifecycle/preStop", `{"httpGet": {"host": "10.0.0.1", "port": 80}}`, "spec.containers[0].lifecycle.preStop.httpGet.host"},
		{"/spec/volumes/0/emptyDir/medium", `"HugePages-2Mi"`, "spec.volumes[0].emptyDir.medium"},
		{"/spec/volumes/0/emptyDir/sizeLimit", `"0"`, "spec.volumes[0].emptyDir.sizeLimit"},
		{"/spec/volumes/-", `{"name": "b", "downwardAPI": {"items": [{"path": "a", "fieldRef": {"fieldPath": "status.hostIP"}}]}}`, "spec.volumes[1].downwardAPI.items[0].fieldRef"},
		{"/spec/volumes/-", `{"name": "b", "projected": {"sources": [{"clusterTrustBundle": {"path": "a"}}]}}`, "spec.volumes[1].projected.sources[0].clusterTrustBundle"},
		{"/spec/volumes/-", `{"name": "b", "image": {"reference": "evil"}}`, "spec.volumes[1].image"},
		{"/spec/readinessGates", `[{"conditionType": "a"}]`, "spec.readinessGates"},
		{"/spec/resources", `{"limits": {"memory": "1Ti"}}`, "spec.resources"},
		{"/spec/topologySpreadConstraints", `[{"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "ScheduleAnyway"}]`, "spec.topologySpreadConstraints"},
		{"/spec/os", `{"name": "windows"}`, "spec.os"},
		{"/spec/resourceClaims", `[{"name": "a"}]`, "spec.resourceClaims"},
	} {
		err := changed(t, row.path, row.value)
		var refused *RefusedError
		switch {
		case row.field == "" && err == nil:
		case !errors.As(err, &refused) || refused.Reason != NotAllowed || !strings.HasPrefix(refused.Message, row.field+":"):
			t.Errorf("%s %s: err = %v, want a refusal of %s", row.path, row.value, err, row.field)
		}
	}
}

// A profile that a node keeps may be narrower than the runtime's own.
func TestAProfileOfTheNodeStays(t *testing.T) {
	local := &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeLocalhost}
	armor := &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeLocalhost}
	for name, pod := range map[string]*corev1.PodSpec{
		"of the pod":       {SecurityContext: &corev1.PodSecurityContext{SeccompProfile: local}},
		"of a container":   {Containers: []corev1.Container{{}, {SecurityContext: &corev1.SecurityContext{SeccompProfile: local}}}},
		"of AppArmor":      {InitContainers: []corev1.Container{{SecurityContext: &corev1.SecurityContext{AppArmorProfile: armor}}}},
		"of AppArmor, pod": {SecurityContext: &corev1.PodSecurityContext{AppArmorProfile: armor}},
	} {
		seccomp := change{value: corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}, set: true, pod: pod}
		appArmor := change{value: corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeRuntimeDefault}, set: true, pod: pod}
		if runtimesSeccomp(seccomp) || runtimesAppArmor(appArmor) {
			t.Errorf("%s: it may be changed", name)
		}
		seccomp.pod, appArmor.pod = &corev1.PodSpec{}, &corev1.PodSpec{}
		if !runtimesSeccomp(seccomp) || !runtimesAppArmor(appArmor) {
			t.Errorf("%s: the runtime's own may not be written where there is none", name)
		}
	}
}

func TestOfAVariableThatIsThereTwiceTheLastCounts(t *testing.T) {
	env := withVariable([]corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "A", Value: "2"}, {Name: "B"}}, corev1.EnvVar{Name: "A", Value: "3"})
	if len(env) != 3 || env[0].Value != "1" || env[1].Value != "3" {
		t.Errorf("the variables are %v", env)
	}
}

func TestManyProblemsAreCounted(t *testing.T) {
	var operations []sandbarv1alpha1.PatchOperation
	for i := range maxProblems + 3 {
		operations = append(operations, sandbarv1alpha1.PatchOperation{Op: "add", Path: "/spec/volumes/-", Value: &runtime.RawExtension{
			Raw: fmt.Appendf(nil, `{"name": "v%d", "nfs": {"server": "a", "path": "/"}}`, i),
		}})
	}
	_, err := Render(input(t, &row{Source: "narrow", Component: sandbarv1alpha1.SandboxGroupComponent{Name: "web", PodTemplatePatch: operations}}))
	if err == nil || !strings.HasSuffix(err.Error(), "; and 3 more") || strings.Count(err.Error(), "nfs") != maxProblems {
		t.Errorf("err = %v", err)
	}
}

func TestATenantsListsAreBounded(t *testing.T) {
	many := map[string]string{}
	for i := range maxMetadata + 1 {
		many[fmt.Sprintf("k%d", i)] = "v"
	}
	var ports []corev1.ServicePort
	for i := range maxPorts + 1 {
		ports = append(ports, corev1.ServicePort{Port: int32(i + 1)})
	}
	for name, component := range map[string]sandbarv1alpha1.SandboxGroupComponent{
		"labels of the Deployment":      {Overrides: &sandbarv1alpha1.WorkloadOverrides{DeploymentLabels: many}},
		"annotations of the Deployment": {Overrides: &sandbarv1alpha1.WorkloadOverrides{DeploymentAnnotations: many}},
		"labels of the pod":             {Overrides: &sandbarv1alpha1.WorkloadOverrides{TemplateLabels: many}},
		"annotations of the pod":        {Overrides: &sandbarv1alpha1.WorkloadOverrides{TemplateAnnotations: many}},
		"labels of the Service":         {Service: &sandbarv1alpha1.SandboxGroupService{Labels: many}},
		"annotations of the Service":    {Service: &sandbarv1alpha1.SandboxGroupService{Annotations: many}},
		"ports":                         {Service: &sandbarv1alpha1.SandboxGroupService{Ports: ports}},
	} {
		component.Name = "web"
		_, err := Render(input(t, &row{Source: "narrow", Component: component}))
		var refused *RefusedError
		if !errors.As(err, &refused) || refused.Reason != InvalidSpec || !strings.Contains(refused.Message, "33 are too many; have 32 at most") {
			t.Errorf("%s: err = %v", name, err)
		}
	}
}
