// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package unit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// furnish turns the new namespaces into the unit's machine. All that it mounts
// and configures belongs to those namespaces and ends with them.
func furnish(m *Machine, namespaces map[string]string) error {
	// First of all, or every mount below would also appear on the host.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("detaching the mounts from the host's: %w", err)
	}
	for file, namespace := range namespaces { // which the host's /proc shows and the unit's own does not
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			return fmt.Errorf("making a file for a namespace: %w", err)
		}
		if err := unix.Mount(namespace, file, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("mounting %s on %s: %w", namespace, file, err)
		}
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mounting /proc: %w", err)
	}
	if m == nil {
		return nil
	}
	if err := unix.Sethostname([]byte(m.Hostname)); err != nil {
		return fmt.Errorf("setting the host name: %w", err)
	}
	for _, dir := range m.Tmpfs {
		if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755"); err != nil {
			return fmt.Errorf("mounting an empty %s: %w", dir, err)
		}
	}
	if err := mountSysfs(); err != nil {
		return err
	}
	for dir, from := range m.Binds {
		if err := os.MkdirAll(from, 0o755); err != nil {
			return fmt.Errorf("creating %s: %w", from, err)
		}
		if err := unix.Mount(from, dir, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("mounting %s on %s: %w", from, dir, err)
		}
	}
	// Containers receive mounts that are made later, which needs a shared tree.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("sharing the mounts with the unit's own containers: %w", err)
	}
	if err := connectLink(m); err != nil {
		return err
	}
	for path, value := range m.Sysctls {
		if err := os.WriteFile(filepath.Join("/proc/sys", path), []byte(value), 0o644); err != nil {
			return fmt.Errorf("setting %s: %w", path, err)
		}
	}
	return nil
}

// mountSysfs gives the unit a /sys that shows its own network links, with the
// host's cgroups moved into it.
func mountSysfs() error {
	const cgroups, aside = "/sys/fs/cgroup", "/run/cgroup"
	if err := os.Mkdir(aside, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("setting the cgroups aside: %w", err)
	}
	steps := []struct {
		from, to, kind string
		flags          uintptr
	}{
		{cgroups, aside, "", unix.MS_BIND | unix.MS_REC},
		{"sysfs", "/sys", "sysfs", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC},
		{aside, cgroups, "", unix.MS_BIND | unix.MS_REC},
	}
	for _, s := range steps {
		if err := unix.Mount(s.from, s.to, s.kind, s.flags, ""); err != nil {
			return fmt.Errorf("mounting %s on %s: %w", s.from, s.to, err)
		}
	}
	if err := unix.Unmount(aside, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmounting %s: %w", aside, err)
	}
	return nil
}

// connectLink makes the link that the host has put here the unit's eth0.
func connectLink(m *Machine) error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("finding the loopback link: %w", err)
	}
	eth0, err := netlink.LinkByName(m.Link)
	if err != nil {
		return fmt.Errorf("finding the link %s: %w", m.Link, err)
	}
	address, err := netlink.ParseAddr(m.Address)
	if err != nil {
		return fmt.Errorf("address %s: %w", m.Address, err)
	}
	err = errors.Join(
		netlink.LinkSetUp(lo),
		netlink.LinkSetName(eth0, "eth0"),
		netlink.AddrAdd(eth0, address),
		netlink.LinkSetUp(eth0),
	)
	if err != nil {
		return fmt.Errorf("configuring eth0: %w", err)
	}
	return nil
}
