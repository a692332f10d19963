// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/sandbar-dev/sandbar/hack/stack/unit"
)

// probeTimeout bounds one look at a server that is on this machine.
const probeTimeout = time.Second

var (
	dialer = net.Dialer{Timeout: probeTimeout}
	// Without a proxy: the node is on this machine, whatever the environment says.
	probe = http.Client{Timeout: probeTimeout, Transport: &http.Transport{DisableKeepAlives: true}}
)

// Socket returns containerd's socket as the host reaches it.
func Socket(node *unit.Running) string {
	return "/proc/" + strconv.Itoa(node.PID) + "/root" + containerdSocket
}

// WaitForContainerd waits until containerd takes connections.
func (n Node) WaitForContainerd(ctx context.Context, node *unit.Running) error {
	err := unit.Poll(ctx, func() bool {
		conn, err := dialer.DialContext(ctx, "unix", Socket(node))
		if err != nil {
			return false
		}
		conn.Close()
		return true
	})
	if err != nil {
		return fmt.Errorf("waiting for containerd: %w", err)
	}
	return nil
}

// Warnings returns the cluster's newest warning events, one per line: what
// explains a pod that does not start. Without an API server there are none.
func (n Node) Warnings(ctx context.Context) string {
	const shown = 5
	events, err := n.kubectl(ctx, "", "get", "events", "-A", "--field-selector=type=Warning", "--sort-by=.lastTimestamp", "--no-headers")
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(events), "\n")
	return strings.Join(lines[max(0, len(lines)-shown):], "\n")
}

// waitForDNS waits until the DNS Service takes connections. The conditions of the
// node and of the Deployment may still be those from before a restart; a
// connection from here proves that kube-proxy, the pod and its network work now.
func (n Node) waitForDNS(ctx context.Context) error {
	err := unit.Poll(ctx, func() bool {
		conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(n.Net.DNS.String(), "53"))
		if err != nil {
			return false
		}
		conn.Close()
		return true
	})
	if err != nil {
		return fmt.Errorf("waiting for the cluster's DNS: %w", err)
	}
	return nil
}

// waitForKro waits until kro's probe says it is ready. The probe listens on the
// node's address too, so no namespace has to be entered.
func (n Node) waitForKro(ctx context.Context) error {
	url := "http://" + netip.AddrPortFrom(n.Net.Node.Addr(), kroProbePort).String() + "/readyz"
	err := unit.Poll(ctx, func() bool {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return false
		}
		response, err := probe.Do(request)
		if err != nil {
			return false
		}
		response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
	if err != nil {
		return fmt.Errorf("waiting for kro: %w", err)
	}
	return nil
}

// Enter returns a command that runs inside the node's network and mounts.
func Enter(ctx context.Context, node *unit.Running, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "nsenter", append([]string{
		"--target", strconv.Itoa(node.PID), "--mount", "--net", "--uts", "--ipc", "--pid", "--",
	}, args...)...)
}
