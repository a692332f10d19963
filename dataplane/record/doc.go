// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package record writes down what became of requests: metrics, the audit log, access lines and traces.
//
//	outcome.go      what is recorded of a request
//	metrics.go      numbers, by enumerations and never by workspace, instance or caller
//	audit.go        who did what, a line per request; auditwho.go names the caller
//	auditwriter.go  the file, which no request waits for
//	accesslog.go    a line per request for the operator
//	tracing.go      spans
//
// What enters is an Outcome; nothing leaves towards the request. It must never see a credential but to ask
// kcp whose it is, and never a query, a body or a header's value other than the addresses of callers.
package record
