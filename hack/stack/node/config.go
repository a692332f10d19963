// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"text/template"

	"golang.org/x/sys/unix"
)

// files returns the configuration files by name.
func (n Node) files() map[string]string { return n.filesFor(runtime.NumCPU()) }

// filesFor is files for a machine with so many CPUs.
func (n Node) filesFor(cpus int) map[string]string {
	values := map[string]any{
		"CNIConfig":  n.config("cni"),
		"Resolv":     n.config("resolv.conf"),
		"CA":         filepath.Join(n.Dir.PKI(), "ca.crt"),
		"Cert":       filepath.Join(n.Dir.PKI(), "kubelet-server.crt"),
		"Key":        filepath.Join(n.Dir.PKI(), "kubelet-server.key"),
		"Cgroup":     "/" + n.Net.Cgroup(),
		"Driver":     cgroupDriver,
		"Pods":       n.Net.Pods.String(),
		"Services":   n.Net.Services.String(),
		"DNS":        n.Net.DNS.String(),
		"Socket":     containerdSocket,
		"Scheduler":  n.config("kube-scheduler.kubeconfig"),
		"Proxy":      n.config("kube-proxy.kubeconfig"),
		"Pause":      PauseImage,
		"KeepOOM":    !mayAdjustOOM(),
		"MaxPods":    maxPods,
		"PIDsPerPod": podPIDs,
		"Reserved":   n.reservedCPUs(cpus),
	}
	files := map[string]string{}
	for name, text := range templates {
		var b bytes.Buffer
		if err := template.Must(template.New(name).Parse(text)).Execute(&b, values); err != nil {
			panic(fmt.Sprintf("template %s: %v", name, err)) // a mistake in this file
		}
		files[name] = strings.TrimLeft(b.String(), "\n")
	}
	return files
}

// reservedCPUs is how many of the machine's CPUs the node does not offer to pods.
func (n Node) reservedCPUs(has int) int {
	if !n.ForTests {
		return 0
	}
	return max(0, has-testCPUs)
}

// PauseImage is the image that holds a pod's namespaces. The stack builds it.
const PauseImage = "localhost/sandbar/pause:dev"

const (
	// maxPods is the most pods the node takes; its address range has four
	// times as many addresses.
	maxPods = 250
	// testCPUs is how many CPUs a node for tests offers to pods: what does not fit must be the same everywhere.
	testCPUs = 2
	// podPIDs is the most processes and threads one pod may have.
	podPIDs = 4096
	// cgroupDriver writes cgroups directly; there is no systemd inside the node.
	cgroupDriver = "cgroupfs"
)

// mayAdjustOOM reports whether the OOM score of a process may be lowered here.
// Without that capability every container would fail to start.
func mayAdjustOOM() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return false
	}
	return data[unix.CAP_SYS_RESOURCE/32].Effective&(1<<(unix.CAP_SYS_RESOURCE%32)) != 0
}

// hasCgroupV2 reports whether the machine has the unified hierarchy only.
func hasCgroupV2() bool {
	_, err := os.Stat("/sys/fs/cgroup/cgroup.controllers")
	return err == nil
}

var templates = map[string]string{
	// A pod has a link of its own to the node instead of a port on a bridge: all
	// its traffic is routed, so that a reply from a Service's pod on the same
	// node passes the same address translation as the request did. A bridge would
	// need a kernel module for that.
	"cni/10-ptp.conflist": `
{
  "cniVersion": "1.0.0",
  "name": "sandbar",
  "plugins": [
    {
      "type": "ptp",
      "ipMasq": false,
      "ipam": {
        "type": "host-local",
        "dataDir": "/run/cni",
        "ranges": [[{"subnet": "{{.Pods}}"}]],
        "routes": [{"dst": "0.0.0.0/0"}]
      }
    },
    {"type": "portmap", "capabilities": {"portMappings": true}, "snat": false}
  ]
}
`,
	"containerd.toml": `
version = 3

[plugins.'io.containerd.cri.v1.images']
  snapshotter = "overlayfs"
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = "{{.Pause}}"

[plugins.'io.containerd.cri.v1.runtime']
  # Without CAP_SYS_RESOURCE no process may lower its OOM score.
  restrict_oom_score_adj = {{.KeepOOM}}
[plugins.'io.containerd.cri.v1.runtime'.cni]
  bin_dirs = ["/usr/lib/cni"]
  conf_dir = "{{.CNIConfig}}"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
`,
	"kubelet.yaml": `
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: false
cgroupDriver: {{.Driver}}
cgroupRoot: {{.Cgroup}}
cgroupsPerQOS: true
enforceNodeAllocatable: [pods]
failSwapOn: false
containerRuntimeEndpoint: unix://{{.Socket}}
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: true}
  x509: {clientCAFile: {{.CA}}}
authorization: {mode: Webhook}
tlsCertFile: {{.Cert}}
tlsPrivateKeyFile: {{.Key}}
clusterDNS: ["{{.DNS}}"]
clusterDomain: cluster.local
resolvConf: {{.Resolv}}
maxPods: {{.MaxPods}}
podPidsLimit: {{.PIDsPerPod}}
serializeImagePulls: false
registryPullQPS: 0
kubeAPIQPS: 500
kubeAPIBurst: 1000
eventRecordQPS: 0
syncFrequency: 10s
shutdownGracePeriod: 0s
imageGCHighThresholdPercent: 100
imageMinimumGCAge: 8760h
{{- if .Reserved}}
systemReserved: {cpu: "{{.Reserved}}"}
{{- end}}
evictionHard: {memory.available: 50Mi, nodefs.available: 1%, imagefs.available: 1%}
# Seccomp's RuntimeDefault for every container that does not ask otherwise.
seccompDefault: true
`,
	"proxy.yaml": `
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: iptables
hostnameOverride: node
clientConnection: {kubeconfig: {{.Proxy}}}
clusterCIDR: {{.Pods}}
iptables: {minSyncPeriod: 100ms}
# These are the host's to set; the node may not.
conntrack: {maxPerCore: 0, min: 0, tcpCloseWaitTimeout: 0s, tcpEstablishedTimeout: 0s}
`,
	"scheduler.yaml": `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: {{.Scheduler}}, qps: 500, burst: 1000}
leaderElection: {leaderElect: false}
# A pod that waits for its volume is tried again at once when it is bound.
podInitialBackoffSeconds: 1
podMaxBackoffSeconds: 1
`,
	// There is no resolver beyond the cluster's own.
	"resolv.conf": "",
}
