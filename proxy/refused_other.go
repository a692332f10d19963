// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package proxy

import "syscall"

// refusals do not tell here what refused a connection.
type refusals struct{}

func (*refusals) hold(string, syscall.RawConn) error { return nil }

func (*refusals) areOfPeers() bool { return false }

func (*refusals) close() {}
