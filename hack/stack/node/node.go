// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package node turns the built parts into one Kubernetes node with its control
// plane and kro: the configuration of each, the unit that runs them, the host's
// link to it and its cgroups. The node is a machine of its own in namespaces
// (see package unit): its ports never collide with another stack's, and its
// iptables rules, links and mounts end with its first process.
package node

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/sandbar-dev/sandbar/hack/stack/kubeconfig"
	"github.com/sandbar-dev/sandbar/hack/stack/pki"
	"github.com/sandbar-dev/sandbar/hack/stack/state"
	"github.com/sandbar-dev/sandbar/hack/stack/unit"
)

// UnitName is the name of the node's unit.
const UnitName = "node"

// apiPort is the API server's port inside the node, and on its address.
const apiPort = 6443

// Node is one stack's node.
type Node struct {
	Name string
	Dir  state.Dir
	Net  state.Network
	// Bin returns the path of a built binary.
	Bin func(part, name string) string
	// ForTests has the node offer the CPUs of testCPUs, also on a larger machine.
	ForTests bool
}

// Server is the address of the node's API server as the host sees it.
func (n Node) Server() string {
	return "https://" + netip.AddrPortFrom(n.Net.Node.Addr(), apiPort).String()
}

func (n Node) config(name string) string { return filepath.Join(n.Dir.Node(), "etc", name) }

// clients are the identities of the node's own parts: each the one that
// Kubernetes' built-in roles expect. The administrator's is also the
// provisioner's. kro's is that of its ServiceAccount, with the rights that its
// chart gives it (manifests/kro.yaml), so that what bounds kro is tried here.
var clients = []pki.Subject{
	{File: "runtime-admin", User: "runtime-admin", Groups: []string{"system:masters"}},
	{File: "kube-controller-manager", User: "system:kube-controller-manager"},
	{File: "kube-scheduler", User: "system:kube-scheduler"},
	{File: "kube-proxy", User: "system:kube-proxy"},
	{File: "kubelet", User: "system:node:node", Groups: []string{"system:nodes"}},
	{File: "kro", User: "system:serviceaccount:kro-system:kro", Groups: []string{"system:serviceaccounts", "system:serviceaccounts:kro-system"}},
	{File: "network-policies", User: "stack-network-policies"},
	{File: "kubelet-client", User: "kube-apiserver-kubelet-client", Groups: []string{"system:masters"}},
}

// Prepare writes the certificates, kubeconfigs and configuration files.
func (n Node) Prepare() error {
	ca, err := pki.Open(n.Dir.PKI())
	if err != nil {
		return err
	}
	servers := []pki.Subject{
		{File: "kube-apiserver", User: "kube-apiserver", Hosts: []string{
			n.Net.Node.Addr().String(), n.Net.APIService.String(), "127.0.0.1", "localhost",
			"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
		}},
		{File: "kubelet-server", User: "node", Hosts: []string{n.Net.Node.Addr().String(), "node"}},
	}
	for _, subject := range append(servers, clients...) {
		if err := ca.Issue(subject); err != nil {
			return err
		}
	}
	if err := ca.IssueKey("service-account"); err != nil {
		return err
	}
	if err := n.writeKubeconfigs(ca); err != nil {
		return err
	}
	for name, content := range n.files() {
		if err := state.WriteFile(n.config(name), []byte(content), 0o644); err != nil {
			return err
		}
	}
	// What containers' networks were before the node last stopped is stale.
	if err := os.RemoveAll(filepath.Join(n.Dir.Node(), "var-lib", "cni")); err != nil {
		return fmt.Errorf("removing stale container networks: %w", err)
	}
	return os.MkdirAll(n.Dir.Volumes(), 0o755)
}

func (n Node) writeKubeconfigs(ca *pki.Authority) error {
	caPEM, err := os.ReadFile(ca.Cert("ca"))
	if err != nil {
		return fmt.Errorf("reading the CA: %w", err)
	}
	for _, c := range clients {
		cert, err := os.ReadFile(ca.Cert(c.File))
		if err != nil {
			return fmt.Errorf("reading a certificate: %w", err)
		}
		key, err := os.ReadFile(ca.Key(c.File))
		if err != nil {
			return fmt.Errorf("reading a key: %w", err)
		}
		path := n.config(c.File + ".kubeconfig")
		if c.File == "runtime-admin" {
			path = n.Dir.Kubeconfig(c.File)
		}
		access := kubeconfig.Access{Server: n.Server(), CA: caPEM, User: c.File, ClientCert: cert, ClientKey: key}
		if err := kubeconfig.Write(path, access); err != nil {
			return err
		}
	}
	return nil
}

// Unit is the unit that runs the node.
func (n Node) Unit() unit.Spec {
	lib := filepath.Join(n.Dir.Node(), "var-lib")
	return unit.Spec{
		Name:   UnitName,
		Dir:    n.Dir.Units(),
		LogDir: n.Dir.Logs(),
		Machine: &unit.Machine{
			Hostname: "node",
			// Everything that Kubernetes, containerd and CNI keep lies at its
			// usual place inside the node and in the state folder outside.
			Binds: map[string]string{"/var/lib": lib, "/var/log": filepath.Join(n.Dir.Node(), "var-log")},
			Tmpfs: []string{"/run"},
			Sysctls: map[string]string{
				"net/ipv4/ip_forward": "1",
			},
			Link:    n.innerLink(),
			Address: n.Net.Node.String(),
		},
		Config:    hashOf(n.files()),
		Processes: n.processes(),
	}
}

// hashOf stands for the content of files.
func hashOf(files map[string]string) string {
	encoded, err := json.Marshal(files)
	if err != nil {
		panic(err) // strings always encode
	}
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:])
}
