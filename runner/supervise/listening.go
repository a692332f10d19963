// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervise

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Listening returns where the app accepts TCP connections, in order of port: what any process of it
// listens on, and nothing of the runner's, or of commands beside it. It is empty while no app runs.
func (s *Supervisor) Listening() ([]netip.AddrPort, error) {
	pid := s.Status().PID
	if pid == 0 || s.reaper == nil {
		return nil, nil
	}
	pids, err := (&osProcess{reaper: s.reaper, id: pid}).left()
	if err != nil {
		return nil, err
	}
	theirs := map[string]bool{}
	for _, pid := range pids {
		addSockets(theirs, pid)
	}
	var found []netip.AddrPort
	for _, table := range []string{"tcp", "tcp6"} {
		f, err := os.Open(filepath.Join("/proc/self/net", table))
		if errors.Is(err, fs.ErrNotExist) {
			continue // a kernel without IPv6
		}
		if err != nil {
			return nil, fmt.Errorf("listing sockets: %w", err)
		}
		listening, err := parseListening(f)
		_ = f.Close()
		if err != nil {
			return nil, fmt.Errorf("listing sockets: %w", err)
		}
		for inode, address := range listening {
			if theirs[inode] {
				found = append(found, address)
			}
		}
	}
	slices.SortFunc(found, func(a, b netip.AddrPort) int {
		if a.Port() != b.Port() {
			return int(a.Port()) - int(b.Port())
		}
		return a.Addr().Compare(b.Addr())
	})
	return found, nil
}

// addSockets adds the inodes of a process's sockets. One that has ended has none.
func addSockets(inodes map[string]bool, pid int) {
	dir := filepath.Join("/proc", strconv.Itoa(pid), "fd")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, entry := range entries {
		target, err := os.Readlink(filepath.Join(dir, entry.Name()))
		if inode, ok := strings.CutPrefix(target, "socket:["); err == nil && ok {
			inodes[strings.TrimSuffix(inode, "]")] = true
		}
	}
}

// stateListen is TCP_LISTEN in the kernel's tables of sockets.
const stateListen = "0A"

// parseListening reads one of the kernel's tables (proc_net_tcp(5)): by inode, the addresses of the
// sockets that listen. The fields of a line are "sl local_address rem_address st tx:rx tr:when retrnsmt
// uid timeout inode …".
func parseListening(table io.Reader) (map[string]netip.AddrPort, error) {
	found := map[string]netip.AddrPort{}
	lines := bufio.NewScanner(table)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 10 || fields[3] != stateListen {
			continue // the heading, or a connection
		}
		address, err := parseSocketAddress(fields[1])
		if err != nil {
			return nil, err
		}
		found[fields[9]] = address
	}
	return found, lines.Err()
}

var errSocket = errors.New("malformed address of a socket")

// parseSocketAddress reads an address as the kernel prints it: words of four bytes in the machine's own
// order, and the port, all in hexadecimal digits.
func parseSocketAddress(text string) (netip.AddrPort, error) {
	host, port, ok := strings.Cut(text, ":")
	number, err := strconv.ParseUint(port, 16, 16)
	if !ok || err != nil {
		return netip.AddrPort{}, errSocket
	}
	raw, err := hex.DecodeString(host)
	if err != nil || len(raw)%4 != 0 {
		return netip.AddrPort{}, errSocket
	}
	for i := 0; i < len(raw); i += 4 {
		binary.NativeEndian.PutUint32(raw[i:], binary.BigEndian.Uint32(raw[i:]))
	}
	address, ok := netip.AddrFromSlice(raw)
	if !ok {
		return netip.AddrPort{}, errSocket
	}
	return netip.AddrPortFrom(address.Unmap(), uint16(number)), nil
}
