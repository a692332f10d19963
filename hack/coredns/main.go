// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Command coredns is CoreDNS with the few plugins that the local stack's cluster
// needs: forward is for a stack that is online. The stock build carries every
// cloud's SDK and takes minutes to compile.
package main

import (
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/forward"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/loadbalance"
	_ "github.com/coredns/coredns/plugin/ready"
)

func main() {
	coremain.Run()
}
