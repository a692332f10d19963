// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"io"
	"log/slog"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// Options configure what is recorded. None has a default here.
type Options struct {
	// AuditLog is the file of the audit log, "-" for stdout, empty for none. AuditLogMaxSize is the size
	// in MiB at which it is put away, AuditLogMaxBackups how many of these are kept.
	AuditLog                            string
	AuditLogMaxSize, AuditLogMaxBackups int
	// AuditOut takes the place of AuditLog's file in tests.
	AuditOut io.WriteCloser
	// TracingEndpoint is what receives traces, and TracingRatio the share of requests without a
	// traceparent that are traced.
	TracingEndpoint string
	TracingRatio    float64
	// Spans takes the place of the exporter in tests.
	Spans sdktrace.SpanExporter
	// Version is the program's.
	Version string
	Logger  *slog.Logger
}
