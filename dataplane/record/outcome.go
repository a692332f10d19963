// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"net/http"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/sandbar-dev/sandbar/dataplane/locate"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/tenant"
)

// Outcome is what is recorded of a request: as far as it is known while it is under way, and all of it at
// its end. Recorders read it and write nothing there.
type Outcome struct {
	// Request is the caller's, for its method and addresses; no recorder writes its query or a body.
	Request *http.Request
	Route   locate.Route
	Kind    *locate.Kind
	// Caller is who called, as far as that is known, and authenticatedBy how that is.
	Caller          tenant.Caller
	AuthenticatedBy string
	// Owner is the object that kcp has let the caller use; zero until then.
	Owner    placement.Owner
	IsStream bool
	Started  time.Time
	// Took is how long it lasted; zero while it is under way.
	Took      time.Duration
	FirstByte time.Duration
	// Cause is why the request was refused or cut; empty when it was not. refused is set when it kept
	// the request from any answer but ours; err is more about it and holds no credential.
	Cause   string
	Refused bool
	Err     error

	Code              int
	BytesIn, BytesOut int64
	AuditID           string
	// AuditStarted is set when the audit log has a line for the begin of this stream.
	AuditStarted bool
	// Span is that of the request, nil when nothing is traced; traceID is empty if it is not recorded.
	Span    trace.Span
	TraceID string
}
