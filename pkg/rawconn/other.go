// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

// Package rawconn is for Linux. On other systems connections stay what package net makes of them.
package rawconn

import (
	"errors"
	"net"
	"sync/atomic"
)

// Conn is never made on this system.
type Conn struct {
	*net.TCPConn

	Note atomic.Int32
}

// Of returns the connection as it is.
func Of(conn net.Conn) net.Conn { return conn }

// ErrAgain is the error of a descriptor that has nothing to read now.
var ErrAgain = errors.ErrUnsupported

// Read is not supported.
func Read(uintptr, []byte) (int, error) { return 0, errors.ErrUnsupported }

// Quiet reports that nothing is known against a connection.
func Quiet(uintptr) bool { return true }

// Cork does nothing.
func (c *Conn) Cork() {}

// Uncork does nothing.
func (c *Conn) Uncork() {}
