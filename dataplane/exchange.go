// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"net/http"
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/sandbar-dev/sandbar/dataplane/access"
	"github.com/sandbar-dev/sandbar/dataplane/lifecycle"
	"github.com/sandbar-dev/sandbar/dataplane/locate"
	"github.com/sandbar-dev/sandbar/dataplane/preview"
	"github.com/sandbar-dev/sandbar/dataplane/record"
	"github.com/sandbar-dev/sandbar/dataplane/refusal"
	"github.com/sandbar-dev/sandbar/dataplane/respond"
	"github.com/sandbar-dev/sandbar/dataplane/upstream"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// exchange is one request on its way through the steps, and what is known of it so far. The steps write
// their answer to its responder.
type exchange struct {
	respond.Writer
	request *http.Request
	started time.Time
	// ends is what AtEnd was told; its first ones lie in endsRoom.
	ends     []func()
	endsRoom [8]func()
	// call is what is sent to a pod; the zero value until then.
	call upstream.Call
	// untie is set for what may outlive the handler; see outlive.
	untie func() bool

	// Filled in by the steps, for those that follow, metrics and the access line.
	route    locate.Route
	kind     *locate.Kind
	question access.Question
	isStream bool
	// longest bounds how long a stream of this endpoint lasts; zero leaves it to the limits.
	longest time.Duration
	// onPreview is set on a preview's host; preview is what was sealed for it, once it is open.
	onPreview bool
	preview   *preview.Claims
	// use is that of the instance; nil while the request is no use of one.
	use *lifecycle.Use
	// cause is why the request was refused or cut; empty when it was not.
	cause string
	// refused is set when cause kept the request from any answer but ours; it is not when an
	// answer that had begun was cut.
	refused bool
	// err is more about cause, for the access line; it never holds a credential.
	err error

	// supervisor ends the request, on its way to the pod, before its time.
	supervisor supervisor
	// auditStarted is set when the audit log has a line for the begin of this stream.
	auditStarted bool
	// authenticatedBy tells how the caller was identified: one of the constants in identify.go.
	authenticatedBy string
	// owner is the object that kcp has let the caller use; zero until then.
	owner placement.Owner
	// span is that of the request; nil when nothing is traced.
	span trace.Span
	// traceID leads to the request's trace; empty if it is not recorded.
	traceID string
}

func newExchange(w http.ResponseWriter, r *http.Request, stall time.Duration) *exchange {
	x := &exchange{request: r, started: time.Now()}
	x.ends = x.endsRoom[:0]
	x.Writer.Begin(w, r, connOf(r), stall, &x.supervisor)
	if access.IsUpgrade(r.Header) {
		x.outlive()
	}
	x.request = x.Writer.Count(x.request)
	return x
}

// AtEnd has something done when the exchange ends, the last first. Where defer would do it when
// the handler returns, this does it after an upgraded connection too.
func (x *exchange) AtEnd(f func()) { x.ends = append(x.ends, f) }

// finish does what AtEnd was told, and bounds what net/http still has to read and to flush after
// the handler. The next request on the connection sets its own deadlines.
func (x *exchange) finish() {
	for _, f := range slices.Backward(x.ends) {
		f()
	}
	if x.call.Relay == nil {
		x.FinishBody()
	}
}

// fail ends the exchange with a refusal. When the answer has begun it only notes the cause:
// the connection then ends in a way that the client can tell from a whole answer.
func (x *exchange) fail(e *refusal.Error) {
	x.cause, x.err, x.refused = e.Cause, e.Err, x.Code() == 0
	if e.Code == refusal.StatusClientClosed {
		if x.Status.CompareAndSwap(0, refusal.StatusClientClosed) {
			// net/http answers 200 for a handler that wrote nothing. Should the caller be
			// there after all, it must not take that for a success.
			panic(http.ErrAbortHandler)
		}
		return
	}
	if x.Code() == 0 {
		switch {
		case x.onPreview && x.refuseSocket(e):
		case x.onPreview:
			writePreviewRefusal(x, x.request, e)
		default:
			refusal.Write(x, x.request, e)
		}
	}
}

// outcome is what recorders read of the request, which has taken so long.
func (x *exchange) outcome(took time.Duration) record.Outcome {
	return record.Outcome{
		Request: x.request, Route: x.route, Kind: x.kind, Caller: x.question.Caller, AuthenticatedBy: x.authenticatedBy, Owner: x.owner,
		IsStream: x.isStream, Started: x.started, Took: took, FirstByte: x.call.FirstByte, Cause: x.cause, Refused: x.refused, Err: x.err,
		Code: x.Code(), BytesIn: x.BytesIn.Load(), BytesOut: x.BytesOut.Load(), AuditID: x.AuditID, AuditStarted: x.auditStarted,
		Span: x.span, TraceID: x.traceID,
	}
}
