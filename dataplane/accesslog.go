// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"log/slog"
	"time"
)

// levelRequests is that of access lines when the audit log has a line for each request too: at
// verbosity 1 they are written all the same.
const levelRequests = slog.Level(-1)

// logAccess writes the one line per request. It names what was asked for and what came of it;
// never a token, a header, a query, a tail or a body. When the request is in the audit log, only
// those that met an error of ours or of the pod are worth a second line.
func logAccess(ctx context.Context, log *slog.Logger, x *exchange, took time.Duration) {
	level := slog.LevelInfo
	if x.auditID != "" && x.err == nil {
		level = levelRequests
	}
	if !log.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("method", loggedMethod(x.request.Method)),
		slog.String("workspace", x.route.workspace),
		slog.String("resource", x.route.resource),
		slog.String("namespace", x.route.namespace),
		slog.String("name", x.route.name),
		slog.String("verb", x.route.verb),
		slog.Int("code", x.code()),
		slog.Int64("bytesIn", x.bytesIn.Load()),
		slog.Int64("bytesOut", x.bytesOut.Load()),
		slog.Duration("duration", took),
	}
	if x.route.component != "" {
		attrs = append(attrs, slog.String("component", x.route.component))
	}
	if x.route.port != "" {
		attrs = append(attrs, slog.String("port", x.route.port))
	}
	if x.auditID != "" {
		attrs = append(attrs, slog.String("auditID", x.auditID))
	}
	if x.cause != "" {
		attrs = append(attrs, slog.String("reason", x.cause))
	}
	if x.err != nil {
		attrs = append(attrs, slog.String("error", x.err.Error()))
	}
	log.LogAttrs(ctx, level, "request", attrs...)
}

// loggedMethod keeps a made-up method from filling the log.
func loggedMethod(method string) string {
	if _, ok := kubernetesVerb(method); ok {
		return method
	}
	return other
}
