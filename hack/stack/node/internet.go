// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sandbar-dev/sandbar/hack/stack/unit"
)

// InternetUnit is the name of the unit that gives the node a way out.
const InternetUnit = "internet"

const (
	// outLink is the node's link to slirp4netns, and outResolver the address at which that answers with
	// what this machine's resolver knows (slirp4netns(1)).
	outLink     = "tap0"
	outResolver = "10.0.2.3"
	// outName is a name outside of the cluster (RFC 2606).
	outName = "example.com"
)

// Internet is the unit that gives a running node a way out, by a network in user space: no address, route,
// rule or setting of this machine changes, and what listens on its loopback cannot be reached.
func (n Node) Internet(node *unit.Running) unit.Spec {
	network := filepath.Join(n.Dir.Units(), "node.net")
	return unit.Spec{
		Name: InternetUnit, Dir: n.Dir.Units(), LogDir: n.Dir.Logs(),
		Namespaces: map[string]string{network: "/proc/" + strconv.Itoa(node.PID) + "/ns/net"},
		Processes: []unit.Process{{
			Name: "slirp4netns",
			Args: []string{
				"/usr/bin/slirp4netns", "--configure", "--disable-host-loopback", "--enable-seccomp", "--mtu=1500",
				"--netns-type=path", network, outLink,
			},
		}},
	}
}

// UseInternet has pods take the node's way out, and the cluster's DNS answer for names of the internet. It
// waits until that works.
func (n Node) UseInternet(ctx context.Context, node *unit.Running) error {
	if err := unit.Poll(ctx, func() bool { return Enter(ctx, node, "ip", "link", "show", outLink).Run() == nil }); err != nil {
		return fmt.Errorf("waiting for the node's link %s: %w", outLink, err)
	}
	rule := []string{"POSTROUTING", "-o", outLink, "-j", "MASQUERADE"}
	if n.iptables(ctx, node, append([]string{"-C"}, rule...)...) != nil {
		if err := n.iptables(ctx, node, append([]string{"-A"}, rule...)...); err != nil {
			return err
		}
	}
	if err := n.forwardNames(ctx); err != nil {
		return err
	}
	resolver := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return dialer.DialContext(ctx, network, net.JoinHostPort(n.Net.DNS.String(), "53"))
	}}
	// That there is no such name is an answer, too: some machines know few names.
	answered := func() bool {
		_, err := resolver.LookupHost(ctx, outName)
		dns, ok := errors.AsType[*net.DNSError](err)
		return err == nil || ok && dns.IsNotFound
	}
	if err := unit.Poll(ctx, answered); err != nil {
		return fmt.Errorf("waiting until the cluster's DNS answers for %s, which it asks this machine's resolver: %w", outName, err)
	}
	return nil
}

func (n Node) iptables(ctx context.Context, node *unit.Running, args ...string) error {
	cmd := Enter(ctx, node, append([]string{"iptables", "-w", "-t", "nat"}, args...)...)
	cmd.Env = []string{systemPath}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("iptables %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// forwardNames has CoreDNS ask this machine's resolver for what the cluster does not know.
func (n Node) forwardNames(ctx context.Context) error {
	const known = "    cache 5\n"
	current, err := n.kubectl(ctx, "", "get", "configmap", "coredns", "-n", "kube-system", "-o", "jsonpath={.data.Corefile}")
	if err != nil || strings.Contains(current, outResolver) {
		return err
	}
	changed := strings.Replace(current, known, "    forward . "+outResolver+"\n"+known, 1)
	if changed == current {
		return fmt.Errorf("the configuration of the cluster's DNS is another than expected:\n%s", current)
	}
	patch := fmt.Sprintf(`{"data": {"Corefile": %q}}`, changed)
	if _, err := n.kubectl(ctx, "", "patch", "configmap", "coredns", "-n", "kube-system", "--type=merge", "-p", patch); err != nil {
		return err
	}
	_, err = n.kubectl(ctx, "", "rollout", "restart", "deployment/coredns", "-n", "kube-system")
	return err
}

// InternetMissing is what is not installed and gives no way out; empty if all is there.
func InternetMissing() string {
	for _, tool := range []string{"slirp4netns", "iptables"} {
		if _, err := exec.LookPath(tool); err != nil {
			return tool
		}
	}
	return ""
}
