// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package proxy is the program in front of a Service of a Baseline: it leads the requests that carry the ID of a sandbox to
// the copies of the sandbox, and all others to the Service's own pods.
//
// In: the document of the Service (package intercept), which changes while the proxy runs, and connections. Out: requests
// and bytes at the baseline and at copies, metrics, and an access log.
//
//	options.go    what an operator sets, and the limits
//	proxy.go      the life of a proxy
//	documents.go  the watch of the ConfigMap
//	state.go      the document that counts
//	port.go       a port: from an accepted connection to the server of its protocol
//	classify.go   which protocol the first bytes are of
//	detect.go     a port whose protocol is not known
//	conn.go       a client's connection
//	servers.go    the servers of HTTP/1.1 and HTTP/2
//	quick_linux.go, answer_linux.go
//	              plain requests of HTTP/1.1, without a server
//	handler.go    a request, step by step
//	forward.go    the request on its way, and the answer on its way back
//	part.go       what a part of an answer is read into
//	upgrade.go    a request that leaves HTTP
//	headers.go    which headers end at the proxy
//	backends.go   connections to the baseline and to copies
//	names.go      names of Services
//	behind.go     whether the baseline is that of the Service
//	reach.go, refused.go
//	              whether the baseline can be reached
//	uploads.go    requests whose body is not taken
//	slots.go      how much copies may have under way
//	led.go        upgraded connections whose rule has gone
//	failure.go    what a client is told when there is no answer
//	drain.go      the end
//	admin.go      /healthz, /readyz and /metrics
//
// Three rules carry the rest (docs/adr/0061-a-proxy-in-front-of-a-service.md). A request is changed in nothing but the
// headers of the connection and X-Forwarded-For. Nothing that a rule says, and nothing that a copy does, takes anything from
// the baseline's requests. A client is never cut off to have it go elsewhere: it is asked to, with an answer.
package proxy
