// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"net/netip"
)

// MaxStacks is how many stacks one machine can run side by side. It follows
// from the address plan: sixteen slices of 4,096 Service addresses fill 10.98/16.
const MaxStacks = 16

// Network is one stack's slice of the address plan. Slices of different
// indexes never overlap, so that two stacks can run side by side.
type Network struct {
	// Index is the stack's place in the plan, from 0 to MaxStacks-1.
	Index int
	// HostLink is the name of the host's end of the pair of links between the
	// host and the node. Creating it is what reserves the index.
	HostLink string
	// Host and Node are the addresses of the two ends, with their subnet.
	Host, Node netip.Prefix
	// Pods holds 1,022 pod addresses: four times the node's limit of pods,
	// because an address is only free again after its pod has been torn down.
	Pods netip.Prefix
	// Services holds 4,094 Service addresses.
	Services netip.Prefix
	// APIService and DNS are the addresses of the two Services that every
	// cluster has: the first and the tenth of the range.
	APIService, DNS netip.Addr
}

// Cgroup is the name of the cgroup below which all pods of the node run: like the
// link, it is named for the index, which is unique on the machine.
func (n Network) Cgroup() string { return n.HostLink }

// NetworkAt returns the slice of the address plan with that index. It panics
// when the index is out of range, which only a broken state file can cause and
// Load has refused.
func NetworkAt(index int) Network {
	if index < 0 || index >= MaxStacks {
		panic(fmt.Sprintf("stack index %d is outside 0…%d", index, MaxStacks-1))
	}
	i := byte(index)
	return Network{
		Index:      index,
		HostLink:   fmt.Sprintf("sandbar%d", index),
		Host:       netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 99, i, 1}), 24),
		Node:       netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 99, i, 2}), 24),
		Pods:       netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 97, i * 4, 0}), 22),
		Services:   netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 98, i * 16, 0}), 20),
		APIService: netip.AddrFrom4([4]byte{10, 98, i * 16, 1}),
		DNS:        netip.AddrFrom4([4]byte{10, 98, i * 16, 10}),
	}
}
