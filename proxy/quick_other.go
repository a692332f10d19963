// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package proxy

import "time"

// goneWatch watches nothing.
type goneWatch struct{}

func (*goneWatch) look(time.Time) {}

// serveQuick leaves all to net/http.
func (p *port) serveQuick(*clientConn) bool { return false }
