// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestARelayMovesMuchBothWays(t *testing.T) {
	w := newWorld(t, switcher("", func(conn net.Conn, in *bufio.Reader) { _, _ = io.Copy(conn, in) }))
	conn := w.dial()
	in := switched(t, conn, demo+"proxy", "")
	const size = 16 << 20
	go func() {
		_, _ = io.CopyN(conn, zeros{}, size)
		_ = conn.CloseWrite()
	}()
	n, err := io.Copy(io.Discard, in)
	if err != nil || n != size {
		t.Errorf("got %d bytes back (%v), want %d", n, err, size)
	}
	eventually(t, "the bytes are counted", func() bool {
		return strings.Contains(w.logs.String(), fmt.Sprintf(`"bytesIn":%d,"bytesOut":%d`, size, size))
	})
}

// Bulk goes from socket to socket in the kernel, by way of a pipe; a wrapper around either side would
// end that unseen. While nobody takes it, the pipe has it.
func TestTheKernelMovesWhatIsMuch(t *testing.T) {
	w := newWorld(t, switcher("", func(conn net.Conn, _ *bufio.Reader) { _, _ = io.Copy(conn, zeros{}) }))
	conn := w.dial()
	switched(t, conn, demo+"proxy", "")
	eventually(t, "bytes are in a pipe", func() bool {
		files, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if kind, _ := os.Readlink("/proc/self/fd/" + file.Name()); !strings.HasPrefix(kind, "pipe:") {
				continue
			}
			if fd, err := strconv.Atoi(file.Name()); err == nil && fd > 2 {
				if n, err := unix.IoctlGetInt(fd, unix.TIOCINQ); err == nil && n > 0 {
					return true
				}
			}
		}
		return false
	})
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
