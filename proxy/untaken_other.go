// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package proxy

import (
	"syscall"
	"time"
)

// limitUntaken does nothing: the proxy runs on Linux, and is compiled elsewhere for its tests' sake only.
func limitUntaken(_ syscall.RawConn, _ time.Duration) error { return nil }
