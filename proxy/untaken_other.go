// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package proxy

import (
	"net"
	"syscall"
	"time"
)

// limitUntaken does nothing: the proxy runs on Linux, and is compiled elsewhere for its tests' sake only.
func limitUntaken(_ syscall.RawConn, _ time.Duration) error { return nil }

func limitUntakenOf(_ net.Conn, _ time.Duration) error { return nil }

// flightOf knows of nothing that was sent.
func flightOf(_ net.Conn) (flight, error) { return flight{}, nil }
