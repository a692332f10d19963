// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"errors"
	"time"
)

// Mode says how requests reach pods.
type Mode string

// Transport modes.
const (
	// Direct dials a ready endpoint of the Service. It is the fast way and needs a
	// route from the data plane to pods.
	Direct Mode = "direct"
	// APIServer goes through the runtime API server's proxy of a pod. It needs
	// nothing but the API server, which was not made for much traffic and rewrites links in
	// HTML pages; previews of whole sites want Direct.
	APIServer Mode = "apiserver"
	// Auto tries Direct once, with the first endpoint that a request needs,
	// and falls back to APIServer.
	Auto Mode = "auto"
)

const (
	// maxPodHeaderBytes bounds the header of a pod's answer.
	maxPodHeaderBytes = 64 << 10
	// maxIdlePerTarget and maxIdle bound the connections to pods that are kept for reuse.
	maxIdlePerTarget = 256
	maxIdle          = 4096
	// dialTimeout bounds one attempt to reach a pod.
	dialTimeout = 3 * time.Second
)

var (
	// errNoEndpoint means that no pod of the Service is ready.
	errNoEndpoint = errors.New("no endpoint of the service is ready")
	// errNotAccepted means that those which are ready accept no connection. Nothing of the
	// request has been sent.
	errNotAccepted = errors.New("no endpoint of the service accepts connections")
)
