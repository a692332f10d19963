// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package podtemplate

import (
	"reflect"
	"strings"
)

// verdict says who decides about a field of a pod.
type verdict string

const (
	// yours: a tenant sets it as it likes.
	yours verdict = "yours"
	// inside: the fields inside of it are decided one by one.
	inside verdict = "inside"
	// byLevel: a tenant sets it, and the pod security level of the placement judges it.
	byLevel verdict = "pod security level"
	// bounded: a tenant sets it within bounds.
	bounded verdict = "bounded"
	// operators: only a pod that a Template offers may have it; a patch cannot change it.
	operators verdict = "operator"
	// fixed: Sandbar sets it, whatever is written.
	fixed verdict = "fixed"
	// never: no pod has it, an offered one neither.
	never verdict = "never"
)

// fieldRule decides about fields of one type. The why of a refusal is part of its message, that of
// other rules is for the documentation.
type fieldRule struct {
	// of is the name of the type in k8s.io/api/core/v1; fields are names in JSON.
	of, fields string
	verdict    verdict
	why        string
	// check reports the values that are refused. Without it, every value is: of a field that is
	// operators or never.
	check valueCheck
}

// Reasons that several fields share.
const (
	noIdentity   = "a sandbox has no identity on the runtime cluster"
	noEscape     = "it leads out of the sandbox"
	operatorsWay = "the operator decides where sandboxes run"
	noEviction   = "it would evict other tenants' pods"
	noDevices    = "devices are the operator's to give"
	noNodeMounts = "a node mounts it from its own network, where no network policy holds; use configMap, downwardAPI, emptyDir, persistentVolumeClaim, projected, secret, or volumeClaimTemplates"
	noNodeProbes = "the kubelet asks from the node's network; without it, the pod itself is asked"
)

// fieldRules decide about every field of a pod. A field that is not here is refused: a new version of
// Kubernetes may bring one that leads out of the sandbox. TestEveryFieldOfAPodIsDecided names it then.
var fieldRules = []fieldRule{
	{"PodSpec", "initContainers containers volumes securityContext os", inside, "", nil},
	{"PodSpec", "ephemeralContainers", never, "they cannot be part of a template", nil},
	{"PodSpec", "restartPolicy", bounded, "Always: a sandbox runs until it is suspended", onlyAlways},
	{"PodSpec", "terminationGracePeriodSeconds", bounded, "at most 300: it holds up suspending and deleting", shortGrace},
	{"PodSpec", "activeDeadlineSeconds", never, "use spec.lifecycle of the instance", nil},
	{"PodSpec", "dnsPolicy", operators, "the node's resolver knows names of the operator's network; ClusterFirst and None are a tenant's to set", nodeResolver},
	{"PodSpec", "dnsConfig hostAliases hostname subdomain setHostnameAsFQDN hostnameOverride", yours, "they concern the pod's own files; network policies hold for every resolver", nil},
	{"PodSpec", "serviceAccountName serviceAccount", never, noIdentity, nil},
	{"PodSpec", "automountServiceAccountToken", never, noIdentity + "; it is always false", ifTrue},
	{"PodSpec", "enableServiceLinks", fixed, "false: variables that name the placement's Services are no part of what was written", nil},
	{"PodSpec", "hostNetwork", operators, "it leads around the network policies of the sandbox", nil},
	{"PodSpec", "hostPID hostIPC", operators, noEscape, nil},
	{"PodSpec", "hostUsers", yours, "false makes root and group 0 of the pod nobody on the node; refused where the node's cluster would ignore it", nil},
	{"PodSpec", "shareProcessNamespace", yours, "the containers are one tenant's", nil},
	{"PodSpec", "imagePullSecrets", yours, "a Secret of the placement, where only a Template's graph makes some", nil},
	{"PodSpec", "nodeName nodeSelector", operators, operatorsWay, nil},
	// Affinity may name other namespaces: it would find, or join, another tenant's pods.
	{"PodSpec", "affinity tolerations topologySpreadConstraints schedulerName schedulingGates schedulingGroup", operators, operatorsWay, nil},
	{"PodSpec", "priorityClassName priority preemptionPolicy", operators, noEviction, nil},
	{"PodSpec", "readinessGates", operators, "nothing here sets such a condition, so the pod would never be ready", nil},
	{"PodSpec", "runtimeClassName", bounded, "the operator's, or left out", operatorsRuntime},
	{"PodSpec", "overhead", operators, "the RuntimeClass says it", nil},
	{"PodSpec", "resourceClaims", operators, noDevices, nil},
	{"PodSpec", "resources", operators, "give each container its own", nil},
	{"PodOS", "name", bounded, "linux", onlyLinux},

	{"Container", "name image command args workingDir imagePullPolicy", yours, "an image that another tenant's pod has brought to a node may be there without its registry's password: see docs/security.md", nil},
	{"Container", "terminationMessagePath terminationMessagePolicy stdin stdinOnce tty resizePolicy restartPolicy restartPolicyRules", yours, "", nil},
	{"Container", "ports envFrom env resources volumeMounts livenessProbe readinessProbe startupProbe lifecycle securityContext", inside, "", nil},
	{"Container", "volumeDevices", operators, "volumes of sandboxes are file systems", nil},
	{"ContainerPort", "name containerPort protocol", yours, "", nil},
	{"ContainerPort", "hostPort hostIP", operators, "the verbs proxy and port-forward lead to every port", nil},
	{"EnvFromSource", "prefix configMapRef", yours, "of the placement", nil},
	{"EnvFromSource", "secretRef", bounded, "a Secret of the placement, but not the control token", notControl},
	{"EnvVar", "name value", yours, "", nil},
	{"EnvVar", "valueFrom", inside, "", nil},
	{"EnvVarSource", "resourceFieldRef configMapKeyRef fileKeyRef", yours, "of the pod and its placement", nil},
	{"EnvVarSource", "secretKeyRef", bounded, "a Secret of the placement, but not the control token", notControl},
	{"EnvVarSource", "fieldRef", inside, "", nil},
	{"ObjectFieldSelector", "apiVersion", yours, "", nil},
	{"ObjectFieldSelector", "fieldPath", operators, "the node's name and addresses say beside whom a sandbox runs; metadata.*, spec.serviceAccountName, status.podIP and status.podIPs are a tenant's to read", ofTheNode},
	{"ResourceRequirements", "limits requests", bounded, "cpu, memory and ephemeral-storage between the operator's min and max, and what the quota counts besides", withinBounds},
	{"ResourceRequirements", "claims", operators, noDevices, nil},
	{"VolumeMount", "name readOnly recursiveReadOnly mountPath subPath subPathExpr", yours, "", nil},
	{"VolumeMount", "mountPropagation", operators, "mounts of a sandbox and of its node do not concern each other", ifPropagated},
	{"Probe", "initialDelaySeconds timeoutSeconds periodSeconds successThreshold failureThreshold", yours, "", nil},
	{"Probe", "terminationGracePeriodSeconds", bounded, "at most 300: it holds up a restart", shortGrace},
	{"ProbeHandler", "exec grpc", yours, "", nil},
	{"ProbeHandler", "httpGet tcpSocket", inside, "", nil},
	{"HTTPGetAction", "path port scheme httpHeaders", yours, "", nil},
	{"HTTPGetAction", "host", operators, noNodeProbes, nil},
	{"TCPSocketAction", "port", yours, "", nil},
	{"TCPSocketAction", "host", operators, noNodeProbes, nil},
	{"Lifecycle", "postStart preStop", inside, "", nil},
	{"Lifecycle", "stopSignal", yours, "", nil},
	{"LifecycleHandler", "exec sleep", yours, "within the pod's grace period", nil},
	{"LifecycleHandler", "httpGet tcpSocket", inside, "", nil},

	{"Volume", "name", yours, "", nil},
	{"VolumeSource", "persistentVolumeClaim configMap", yours, "of the placement", nil},
	{"VolumeSource", "emptyDir secret downwardAPI projected", inside, "", nil},
	{"VolumeSource", "ephemeral", operators, "it would be deleted with the pod; use volumeClaimTemplates", nil},
	{"VolumeSource", "hostPath", operators, noEscape, nil},
	{"VolumeSource", "image", operators, "the node's own credentials pull it; put the files into the container's image", nil},
	{
		"VolumeSource", "awsElasticBlockStore azureDisk azureFile cephfs cinder csi fc flexVolume flocker gcePersistentDisk gitRepo " +
			"glusterfs iscsi nfs photonPersistentDisk portworxVolume quobyte rbd scaleIO storageos vsphereVolume",
		operators, noNodeMounts, nil,
	},
	{"EmptyDirVolumeSource", "medium", operators, "hugepages are the operator's to give; disk and Memory are a tenant's to choose", ifHugepages},
	{"EmptyDirVolumeSource", "sizeLimit", bounded, "above zero and at most the operator's emptyDir.max or emptyDir.memoryMax; filled in when it is left out", withinSizes},
	{"SecretVolumeSource", "secretName", bounded, "a Secret of the placement, but not the control token", notControlName},
	{"SecretVolumeSource", "items defaultMode optional", yours, "", nil},
	{"DownwardAPIVolumeSource", "items", inside, "", nil},
	{"DownwardAPIVolumeSource", "defaultMode", yours, "", nil},
	{"DownwardAPIVolumeFile", "path resourceFieldRef mode", yours, "", nil},
	{"DownwardAPIVolumeFile", "fieldRef", inside, "", nil},
	{"ProjectedVolumeSource", "sources", inside, "", nil},
	{"ProjectedVolumeSource", "defaultMode", yours, "", nil},
	{"VolumeProjection", "configMap", yours, "of the placement", nil},
	{"VolumeProjection", "secret", bounded, "a Secret of the placement, but not the control token", notControl},
	{"VolumeProjection", "downwardAPI", inside, "", nil},
	{"VolumeProjection", "serviceAccountToken podCertificate", never, noIdentity, nil},
	{"VolumeProjection", "clusterTrustBundle", operators, "whom the runtime cluster trusts is the operator's to tell", nil},
	{"DownwardAPIProjection", "items", inside, "", nil},

	{"PodSecurityContext", "runAsUser runAsNonRoot sysctls", byLevel, "restricted: root only with hostUsers false, and the sysctls that concern the pod alone", nil},
	{"PodSecurityContext", "runAsGroup fsGroup supplementalGroups", bounded, "group 0 only with hostUsers false, at the level restricted: it is the node's root group otherwise", notRootsGroup},
	{"PodSecurityContext", "supplementalGroupsPolicy fsGroupChangePolicy", yours, "", nil},
	{"PodSecurityContext", "seccompProfile appArmorProfile", inside, "", nil},
	{"PodSecurityContext", "seLinuxOptions seLinuxChangePolicy", operators, "a label of another sandbox would open its files", nil},
	{"PodSecurityContext", "windowsOptions", operators, "sandboxes run on Linux", nil},
	{"SecurityContext", "capabilities privileged allowPrivilegeEscalation runAsUser runAsNonRoot", byLevel, "filled in for the level restricted when left out", nil},
	{"SecurityContext", "runAsGroup", bounded, "group 0 only with hostUsers false, at the level restricted: it is the node's root group otherwise", notRootsGroup},
	{"SecurityContext", "readOnlyRootFilesystem", yours, "", nil},
	{"SecurityContext", "procMount", operators, "what /proc masks concerns the node", ifUnmasked},
	{"SecurityContext", "seccompProfile appArmorProfile", inside, "", nil},
	{"SecurityContext", "seLinuxOptions", operators, "a label of another sandbox would open its files", nil},
	{"SecurityContext", "windowsOptions", operators, "sandboxes run on Linux", nil},
	{"SeccompProfile", "type", byLevel, "restricted: RuntimeDefault, which is filled in when left out", nil},
	{"SeccompProfile", "localhostProfile", operators, "the profiles on a node are for the operator's own pods", nil},
	{"AppArmorProfile", "type", byLevel, "restricted: RuntimeDefault", nil},
	{"AppArmorProfile", "localhostProfile", operators, "the profiles on a node are for the operator's own pods", nil},
}

// ruleOf finds the rule about a field by "Type.field".
var ruleOf = func() map[string]*fieldRule {
	byField := map[string]*fieldRule{}
	for i := range fieldRules {
		for name := range strings.FieldsSeq(fieldRules[i].fields) {
			byField[fieldRules[i].of+"."+name] = &fieldRules[i]
		}
	}
	return byField
}()

// jsonName is the name of a field in JSON; empty for one that is inlined.
func jsonName(field reflect.StructField) string {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	return name
}
