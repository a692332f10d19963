// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"path/filepath"

	"github.com/sandbar-dev/sandbar/hack/stack/unit"
)

// Where the parts find each other inside the node.
const (
	etcdAddress      = "127.0.0.1:2379"
	apiAddress       = "127.0.0.1:6443"
	containerdSocket = "/run/containerd/containerd.sock"
	kroProbePort     = 8079
	kroMetricsPort   = 8078
)

// systemPath is where kubelet and kube-proxy find mount, iptables and the like.
const systemPath = "PATH=/usr/sbin:/usr/bin:/sbin:/bin"

// processes lists what the node runs. All start at once; After says what each
// waits for, so that none fails and backs off during a normal start.
func (n Node) processes() []unit.Process {
	env := []string{systemPath}
	if n.ForTests {
		env = append(env, unit.LessCollection...)
	}
	kube := func(name string, after []string, args ...string) unit.Process {
		return unit.Process{
			Name: name, After: after, Env: env,
			Args: append([]string{n.Bin("node", "node"), name}, args...),
		}
	}
	api := []string{"https://" + apiAddress + "/readyz"}
	return []unit.Process{
		kube("etcd", nil, n.etcdArgs()...),
		kube("kube-apiserver", []string{"tcp:" + etcdAddress}, n.apiserverArgs()...),
		kube("kube-controller-manager", api, n.controllerManagerArgs()...),
		kube("kube-scheduler", api, "--config="+n.config("scheduler.yaml")),
		{
			Name: "containerd",
			Args: []string{n.Bin("containerd", "containerd"), "--config", n.config("containerd.toml")},
			// containerd looks for the shim and for runc on its PATH.
			Env: []string{systemPath + ":" +
				filepath.Dir(n.Bin("containerd", "containerd")) + ":" + filepath.Dir(n.Bin("runc", "runc"))},
		},
		kube("kubelet", append([]string{"unix:" + containerdSocket}, api...),
			"--config="+n.config("kubelet.yaml"),
			"--kubeconfig="+n.config("kubelet.kubeconfig"),
			"--hostname-override=node",
			"--node-ip="+n.Net.Node.Addr().String()),
		kube("kube-proxy", api, "--config="+n.config("proxy.yaml")),
		kube("provisioner", api,
			"--kubeconfig="+n.Dir.Kubeconfig("runtime-admin"), "--root="+n.Dir.Volumes()),
		{
			Name: "network-policies", After: api, Env: []string{systemPath},
			Args: []string{
				n.Bin("netpol", "netpol"), "--kubeconfig=" + n.config("network-policies.kubeconfig"),
				"--node=node", "--services=" + n.Net.Services.String(),
			},
		},
		kroAfter(n.Kro(n.config("kro.kubeconfig")), api),
	}
}

// Kro is the process of kro with a kubeconfig.
func (n Node) Kro(kubeconfig string) unit.Process {
	return unit.Process{
		Name: "kro",
		Args: append([]string{n.Bin("kro", "controller")}, kroArgs...),
		Env:  []string{"KUBECONFIG=" + kubeconfig},
	}
}

func kroAfter(p unit.Process, after []string) unit.Process {
	p.After = after
	return p
}

func (n Node) etcdArgs() []string {
	return []string{
		"--data-dir=/var/lib/etcd",
		"--listen-client-urls=http://" + etcdAddress,
		"--advertise-client-urls=http://" + etcdAddress,
		"--listen-peer-urls=http://127.0.0.1:2380",
		"--quota-backend-bytes=4294967296",
		"--auto-compaction-mode=periodic", "--auto-compaction-retention=5m",
		// The stack survives the death of its processes, not of the machine.
		"--unsafe-no-fsync",
	}
}

func (n Node) apiserverArgs() []string {
	pki := func(name string) string { return filepath.Join(n.Dir.PKI(), name) }
	return []string{
		"--etcd-servers=http://" + etcdAddress,
		"--bind-address=0.0.0.0", fmt.Sprintf("--secure-port=%d", apiPort),
		"--advertise-address=" + n.Net.Node.Addr().String(),
		"--tls-cert-file=" + pki("kube-apiserver.crt"),
		"--tls-private-key-file=" + pki("kube-apiserver.key"),
		"--client-ca-file=" + pki("ca.crt"),
		"--kubelet-client-certificate=" + pki("kubelet-client.crt"),
		"--kubelet-client-key=" + pki("kubelet-client.key"),
		"--kubelet-certificate-authority=" + pki("ca.crt"),
		// Extension API servers of the cluster learn from these whom to believe.
		"--requestheader-client-ca-file=" + pki("ca.crt"),
		"--requestheader-allowed-names=front-proxy",
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--kubelet-preferred-address-types=InternalIP",
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + pki("service-account.crt"),
		"--service-account-signing-key-file=" + pki("service-account.key"),
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--service-cluster-ip-range=" + n.Net.Services.String(),
		"--allow-privileged=true",
		"--max-requests-inflight=2000", "--max-mutating-requests-inflight=1000",
	}
}

func (n Node) controllerManagerArgs() []string {
	config := n.config("kube-controller-manager.kubeconfig")
	return []string{
		"--kubeconfig=" + config,
		"--authentication-kubeconfig=" + config, "--authorization-kubeconfig=" + config,
		"--service-account-private-key-file=" + filepath.Join(n.Dir.PKI(), "service-account.key"),
		"--root-ca-file=" + filepath.Join(n.Dir.PKI(), "ca.crt"),
		"--use-service-account-credentials=true",
		"--leader-elect=false",
		// The defaults (20 and 30) would be what a benchmark of creation measures.
		"--kube-api-qps=500", "--kube-api-burst=1000",
		"--concurrent-namespace-syncs=20",
		"--concurrent-deployment-syncs=10", "--concurrent-replicaset-syncs=10",
		"--concurrent-serviceaccount-token-syncs=10",
	}
}

// kroArgs raises kro's limits: as shipped it handles ten events a second with
// one worker and looks again after three seconds.
var kroArgs = []string{
	fmt.Sprintf("--health-probe-bind-address=:%d", kroProbePort),
	fmt.Sprintf("--metrics-bind-address=:%d", kroMetricsPort),
	"--client-qps=500", "--client-burst=1000",
	"--resource-graph-definition-concurrent-reconciles=4",
	"--graph-revision-concurrent-reconciles=4",
	"--dynamic-controller-concurrent-reconciles=16",
	"--dynamic-controller-rate-limiter-rate-limit=1000",
	"--dynamic-controller-rate-limiter-burst-limit=2000",
	"--dynamic-controller-rate-limiter-min-delay=20ms",
	"--dynamic-controller-rate-limiter-max-delay=30s",
	"--instance-requeue-interval=500ms",
	"--rgd-progress-requeue-delay=500ms",
	// Sandbar's Templates come and go with their kinds.
	"--allow-crd-deletion=true",
}
