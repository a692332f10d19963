// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package clone

import "strings"

// fieldRule says by which values a tenant may change fields of one type. A field without a rule stays as the workload has
// it: a new version of Kubernetes may bring one that leads out of the sandbox.
type fieldRule struct {
	// of is the name of the type in k8s.io/api/core/v1; fields are names in JSON.
	of, fields string
	// allow reports the values that a tenant may write; nil (inside) has the fields inside decided one by one.
	allow fieldCheck
	// hint says what to do when a value is refused; empty for what is said of all fields (refusal).
	hint string
}

// Hints that several fields share.
const (
	hintRemove = "remove it"
	hintLess   = "a copy may have fewer rights than its workload, and not more: "
	hintProbe  = "a kubelet asks from the node's network: leave host out, so that the pod itself is asked"
	hintSmall  = "ask for cpu, memory and ephemeral-storage above zero, or for what the workload's container asks for"
)

// fieldRules are the decisions. What they do not have, and why:
//
//   - tolerations, affinity, topologySpreadConstraints, priorityClassName, runtimeClassName, schedulerName, nodeName,
//     schedulingGates: who shares a node with whom is the operator's decision. nodeSelector narrows it (nodes.go).
//   - supplementalGroups, sysctls, seLinuxOptions, windowsOptions, localhost profiles: they concern the node.
//   - serviceAccountToken and podCertificate of projected volumes: identity on the runtime cluster.
//   - subPathExpr, mountPropagation Bidirectional: ways through a mount into the file system below it.
var fieldRules = []fieldRule{
	{"PodSpec", "initContainers containers volumes securityContext", inside, ""},
	{"PodSpec", "dnsConfig hostAliases hostname subdomain setHostnameAsFQDN hostnameOverride", anyValue, ""},
	{"PodSpec", "shareProcessNamespace enableServiceLinks imagePullSecrets nodeSelector", anyValue, ""},
	{"PodSpec", "restartPolicy", onlyAlways, "a Deployment restarts its pods: write Always"},
	{"PodSpec", "terminationGracePeriodSeconds", shortGrace, "it holds up suspending and deleting: write at most 300"},
	{"PodSpec", "dnsPolicy", ownResolver, "the node's resolver knows names of the operator's network: write ClusterFirst or None"},
	{"PodSpec", "hostNetwork hostPID hostIPC serviceAccountName serviceAccount", onlyGone, hintRemove},
	{"PodSpec", "automountServiceAccountToken", onlyFalse, "write false"},
	{"PodSpec", "hostUsers", onlyFalse, "write false"},

	{"Container", "name image command args workingDir imagePullPolicy", anyValue, ""},
	{"Container", "terminationMessagePath terminationMessagePolicy stdin stdinOnce tty resizePolicy restartPolicy restartPolicyRules volumeDevices", anyValue, ""},
	{"Container", "ports envFrom env volumeMounts livenessProbe readinessProbe startupProbe lifecycle securityContext", inside, ""},
	{"Container", "resources", countedResources, hintSmall},
	{"ContainerPort", "name containerPort protocol", anyValue, ""},
	{"ContainerPort", "hostPort hostIP", onlyGone, hintRemove},
	{"EnvFromSource", "prefix configMapRef secretRef", anyValue, ""},
	{"EnvVar", "name value", anyValue, ""},
	{"EnvVar", "valueFrom", inside, ""},
	{"EnvVarSource", "resourceFieldRef configMapKeyRef secretKeyRef fileKeyRef", anyValue, ""},
	{"EnvVarSource", "fieldRef", fieldOfPod, "the node's name and addresses are not a tenant's to read: use metadata.*, spec.serviceAccountName, status.podIP or status.podIPs"},
	{"VolumeMount", "name readOnly recursiveReadOnly mountPath subPath", anyValue, ""},
	{"VolumeMount", "subPathExpr", onlyGone, "use subPath"},
	{"VolumeMount", "mountPropagation", onlyUnshared, "write None"},
	{"Probe", "initialDelaySeconds timeoutSeconds periodSeconds successThreshold failureThreshold", anyValue, ""},
	{"Probe", "terminationGracePeriodSeconds", shortGrace, "it holds up a restart: write at most 300"},
	{"ProbeHandler", "exec grpc", anyValue, ""},
	{"ProbeHandler", "httpGet tcpSocket", inside, ""},
	{"HTTPGetAction", "path port scheme httpHeaders", anyValue, ""},
	{"HTTPGetAction", "host", onlyGone, hintProbe},
	{"TCPSocketAction", "port", anyValue, ""},
	{"TCPSocketAction", "host", onlyGone, hintProbe},
	{"Lifecycle", "postStart preStop", inside, ""},
	{"Lifecycle", "stopSignal", anyValue, ""},
	{"LifecycleHandler", "exec sleep", anyValue, ""},
	{"LifecycleHandler", "httpGet tcpSocket", inside, ""},

	{"Volume", "name", anyValue, ""},
	{"VolumeSource", "persistentVolumeClaim configMap secret", anyValue, ""}, // volumes.go and references.go say which
	{"VolumeSource", "emptyDir downwardAPI projected", inside, ""},
	{
		"VolumeSource", "awsElasticBlockStore azureDisk azureFile cephfs cinder csi ephemeral fc flexVolume flocker gcePersistentDisk gitRepo " +
			"glusterfs hostPath image iscsi nfs photonPersistentDisk portworxVolume quobyte rbd scaleIO storageos vsphereVolume",
		onlyGone, "use configMap, downwardAPI, emptyDir, projected or secret",
	},
	{"EmptyDirVolumeSource", "medium", noHugepages, "write Memory, or leave it out"},
	{"EmptyDirVolumeSource", "sizeLimit", aboveZero, "a size of zero is none: write one above zero"},
	{"DownwardAPIVolumeSource", "items", inside, ""},
	{"DownwardAPIVolumeSource", "defaultMode", anyValue, ""},
	{"DownwardAPIVolumeFile", "path resourceFieldRef mode", anyValue, ""},
	{"DownwardAPIVolumeFile", "fieldRef", fieldOfPod, "the node's name and addresses are not a tenant's to read: use metadata.*"},
	{"ProjectedVolumeSource", "sources", inside, ""},
	{"ProjectedVolumeSource", "defaultMode", anyValue, ""},
	{"VolumeProjection", "configMap secret", anyValue, ""}, // references.go says which
	{"VolumeProjection", "downwardAPI", inside, ""},
	{"VolumeProjection", "serviceAccountToken podCertificate clusterTrustBundle", onlyGone, hintRemove},
	{"DownwardAPIProjection", "items", inside, ""},

	{"PodSecurityContext", "runAsUser runAsGroup fsGroup", notRoot, hintLess + "write an ID above zero"},
	{"PodSecurityContext", "runAsNonRoot", onlyTrue, hintLess + "write true"},
	{"PodSecurityContext", "supplementalGroupsPolicy", onlyStrict, hintLess + "write Strict"},
	{"PodSecurityContext", "fsGroupChangePolicy", anyValue, ""},
	{"PodSecurityContext", "seccompProfile", runtimesSeccomp, hintLess + "write type RuntimeDefault"},
	{"PodSecurityContext", "appArmorProfile", runtimesAppArmor, hintLess + "write type RuntimeDefault"},
	{"SecurityContext", "runAsUser runAsGroup", notRoot, hintLess + "write an ID above zero"},
	{"SecurityContext", "runAsNonRoot", onlyTrue, hintLess + "write true"},
	{"SecurityContext", "privileged", onlyGone, hintLess + "write false"},
	{"SecurityContext", "allowPrivilegeEscalation", onlyFalse, hintLess + "write false"},
	{"SecurityContext", "readOnlyRootFilesystem", anyValue, ""},
	{"SecurityContext", "capabilities", fewerCapabilities, hintLess + "add only what the workload's container adds, and drop all that it drops"},
	{"SecurityContext", "procMount", maskedProc, hintLess + "write Default"},
	{"SecurityContext", "seccompProfile", runtimesSeccomp, hintLess + "write type RuntimeDefault"},
	{"SecurityContext", "appArmorProfile", runtimesAppArmor, hintLess + "write type RuntimeDefault"},
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
