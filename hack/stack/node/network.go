// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/sandbar-dev/sandbar/hack/stack/state"
)

func (n Node) innerLink() string { return n.Net.HostLink + "n" }

// Reserve takes a free slice of the address plan by creating its pair of links:
// the kernel refuses a second link of that name, so two stacks that start at the
// same moment never get the same slice. Prefer, unless -1, is tried first. The
// pair is labelled with the stack's folder: what a killed start of the same stack
// has reserved is given back first.
func Reserve(dir state.Dir, prefer int) (state.Network, error) {
	if err := ReleaseOwn(dir); err != nil {
		return state.Network{}, err
	}
	order := make([]int, 0, state.MaxStacks+1)
	if prefer >= 0 {
		order = append(order, prefer)
	}
	for i := range state.MaxStacks {
		order = append(order, i)
	}
	for _, index := range order {
		slice := state.NetworkAt(index)
		pair := &netlink.Veth{
			LinkAttrs: netlink.LinkAttrs{Name: slice.HostLink},
			PeerName:  slice.HostLink + "n",
		}
		err := netlink.LinkAdd(pair)
		switch {
		case err == nil:
			return slice, label(slice, dir)
		case errors.Is(err, unix.EEXIST):
		case errors.Is(err, unix.EPERM):
			return state.Network{}, fmt.Errorf("creating the node's network link needs root: %w", err)
		default:
			return state.Network{}, fmt.Errorf("creating the link %s: %w", slice.HostLink, err)
		}
	}
	return state.Network{}, fmt.Errorf("all %d stacks that one machine can have are taken (links sandbar0 to sandbar%d)", state.MaxStacks, state.MaxStacks-1)
}

func label(slice state.Network, dir state.Dir) error {
	link, err := netlink.LinkByName(slice.HostLink)
	if err != nil {
		return fmt.Errorf("finding the link %s: %w", slice.HostLink, err)
	}
	if err := netlink.LinkSetAlias(link, string(dir)); err != nil {
		return fmt.Errorf("labelling the link %s: %w", slice.HostLink, err)
	}
	return nil
}

// ReleaseOwn removes the stack's links: those that carry the label of its folder.
// The slice alone does not tell, for when its node has died another stack may
// have taken it.
func ReleaseOwn(dir state.Dir) error {
	for i := range state.MaxStacks {
		slice := state.NetworkAt(i)
		link, err := netlink.LinkByName(slice.HostLink)
		if err == nil && link.Attrs().Alias == string(dir) {
			if err := Release(slice); err != nil {
				return err
			}
		}
	}
	return nil
}

// Connect moves the inner end of the pair into the node's network and routes
// the node's pods and Services through the outer end.
func (n Node) Connect(pid int) error {
	inner, err := netlink.LinkByName(n.innerLink())
	if err != nil {
		return fmt.Errorf("finding the link %s: %w", n.innerLink(), err)
	}
	if err := netlink.LinkSetNsPid(inner, pid); err != nil {
		return fmt.Errorf("moving the link %s into the node: %w", n.innerLink(), err)
	}
	host, err := netlink.LinkByName(n.Net.HostLink)
	if err != nil {
		return fmt.Errorf("finding the link %s: %w", n.Net.HostLink, err)
	}
	address := &netlink.Addr{IPNet: ipNet(n.Net.Host)}
	if err := netlink.AddrReplace(host, address); err != nil {
		return fmt.Errorf("addressing the link %s: %w", n.Net.HostLink, err)
	}
	if err := netlink.LinkSetUp(host); err != nil {
		return fmt.Errorf("raising the link %s: %w", n.Net.HostLink, err)
	}
	for _, prefix := range []netip.Prefix{n.Net.Pods, n.Net.Services} {
		route := &netlink.Route{LinkIndex: host.Attrs().Index, Dst: ipNet(prefix), Gw: n.Net.Node.Addr().AsSlice()}
		if err := netlink.RouteReplace(route); err != nil {
			return fmt.Errorf("routing %s to the node: %w", prefix, err)
		}
	}
	return nil
}

// Release removes the pair of links, and with it the addresses and routes. A
// pair that is gone already is no error.
func Release(slice state.Network) error {
	link, err := netlink.LinkByName(slice.HostLink)
	if _, gone := errors.AsType[netlink.LinkNotFoundError](err); gone {
		return nil
	}
	if err != nil {
		return fmt.Errorf("finding the link %s: %w", slice.HostLink, err)
	}
	if err := netlink.LinkDel(link); err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("removing the link %s: %w", slice.HostLink, err)
	}
	return nil
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
