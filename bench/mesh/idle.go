// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// idleMiB is how much memory the proxy has while so many connections, each of which has had an answer, wait for the next
// request. It is what the process holds of the machine, 30 seconds later and so after a garbage collection or more.
func (b *bench) idleMiB(ctx context.Context) (float64, error) {
	var held struct {
		sync.Mutex

		conns []net.Conn
	}
	defer func() {
		for _, c := range held.conns {
			_ = c.Close()
		}
	}()
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(64)
	for range b.idle {
		group.Go(func() error {
			conn, err := b.once(groupCtx)
			if err != nil {
				return err
			}
			held.Lock()
			defer held.Unlock()
			held.conns = append(held.conns, conn)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return 0, err
	}
	wait := time.NewTimer(30 * time.Second)
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-ctx.Done():
	}
	return resident(b.rivals.idlePID)
}

// once opens a connection and has one answer on it.
func (b *bench) once(ctx context.Context) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", b.rivals.idle)
	if err != nil {
		return nil, fmt.Errorf("connecting for one that is idle: %w", err)
	}
	_, err = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\nbaggage: sandbox="+id(0)+"\r\n\r\n")
	if err != nil {
		return nil, fmt.Errorf("asking once: %w", err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return nil, fmt.Errorf("asking once: %w", err)
	}
	_, err = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
	if err != nil || res.StatusCode != http.StatusOK {
		return nil, errors.Join(err, fmt.Errorf("asking once: %s", res.Status))
	}
	return conn, nil
}

// resident is the memory of a process, in MiB.
func resident(pid int) (float64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("reading the memory of the proxy: %w", err)
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.ParseFloat(strings.Fields(value)[0], 64)
			return kib / 1024, err //nolint:wrapcheck // the kernel's number
		}
	}
	return 0, errors.New("reading the memory of the proxy: it is not told")
}
