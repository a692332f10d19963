// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"context"
	"log/slog"

	"github.com/sandbar-dev/sandbar/dataplane/access"
)

// levelRequests is that of access lines when the audit log has a line for each request too: at
// verbosity 1 they are written all the same.
const levelRequests = slog.Level(-1)

// LogAccess writes the one line per request. It names the request and its outcome;
// never a token, a header, a query, a tail or a body. When the request is in the audit log, only
// those that met an error of ours or of the pod are worth a second line.
func LogAccess(ctx context.Context, log *slog.Logger, o *Outcome) {
	level := slog.LevelInfo
	if o.AuditID != "" && o.Err == nil {
		level = levelRequests
	}
	if !log.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("method", loggedMethod(o.Request.Method)),
		slog.String("workspace", o.Route.Workspace),
		slog.String("resource", o.Route.Resource),
		slog.String("namespace", o.Route.Namespace),
		slog.String("name", o.Route.Name),
		slog.String("verb", o.Route.Verb),
		slog.Int("code", o.Code),
		slog.Int64("bytesIn", o.BytesIn),
		slog.Int64("bytesOut", o.BytesOut),
		slog.Duration("duration", o.Took),
	}
	if o.Route.Component != "" {
		attrs = append(attrs, slog.String("component", o.Route.Component))
	}
	if o.Route.Port != "" {
		attrs = append(attrs, slog.String("port", o.Route.Port))
	}
	if o.AuditID != "" {
		attrs = append(attrs, slog.String("auditID", o.AuditID))
	}
	if o.Cause != "" {
		attrs = append(attrs, slog.String("reason", o.Cause))
	}
	if o.Err != nil {
		attrs = append(attrs, slog.String("error", o.Err.Error()))
	}
	log.LogAttrs(ctx, level, "request", attrs...)
}

// loggedMethod keeps a made-up method from filling the log.
func loggedMethod(method string) string {
	if _, ok := access.KubernetesVerb(method); ok {
		return method
	}
	return Other
}
