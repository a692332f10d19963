// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Reasons of a refusal, for metrics and access lines. They are enumerations: never add one
// that carries a value.
const (
	causeMalformed     = "malformed"
	causeNoIdentity    = "no_identity"
	causeBadIdentity   = "bad_identity"
	causeDenied        = "denied"
	causeClaim         = "claim_not_accepted"
	causeNoInstance    = "no_instance"
	causeNoVerb        = "no_verb"
	causeNotPlaced     = "not_placed"
	causeDeleting      = "deleting"
	causeAmbiguous     = "ambiguous_placement"
	causeMethod        = "method"
	causeUpgrade       = "upgrade"
	causeNoPort        = "no_port"
	causeNotReady      = "not_ready"
	causeWaking        = "waking"
	causeWakeTimeout   = "wake_timeout"
	causeHeld          = "held"
	causeSuspended     = "suspended"
	causeExpired       = "expired"
	causeNotDeveloped  = "not_in_development"
	causeForeignRef    = "foreign_reference"
	causeBodyTooLarge  = "body_too_large"
	causeRate          = "rate"
	causeInFlight      = "in_flight"
	causeStreams       = "streams"
	causeDeniedRate    = "denied_rate"
	causeQuestions     = "caller_questions"
	causeConnections   = "connections_per_address"
	causeUnreachable   = "pod_unreachable"
	causeBadAnswer     = "pod_bad_answer"
	causeTimeout       = "pod_timeout"
	causeStalled       = "client_stalled"
	causeKcp           = "kcp_unavailable"
	causeStarting      = "starting"
	causeDraining      = "draining"
	causeClientGone    = "client_gone"
	causeCut           = "authorization_ended"
	causeInstanceEnded = "instance_ended"
	causeKcpSilent     = "kcp_silent"
	causeStreamCeiling = "stream_ceiling"
	causeIdle          = "stream_idle"
	causeDefect        = "defect"

	causeNoPreviews      = "no_preview_domain"
	causeNoPreview       = "no_preview"
	causePreviewKeys     = "no_preview_key"
	causePreviewIdentity = "identity_too_large"
	causePreviewExpired  = "preview_expired"
	causePreviewRevoked  = "preview_revoked"
	causePreviewOrigin   = "preview_origin"
)

// statusClientClosedRequest is what an access line says of a caller that left before the
// answer began (nginx's convention). It is never sent.
const statusClientClosedRequest = 499

// refusal is the only kind of error that ends a request. Its message goes to the caller: it
// says what to do next and names nothing that the caller may not know.
type refusal struct {
	code    int
	reason  metav1.StatusReason
	message string
	// cause is one of the constants above.
	cause string
	// err is for the log only; it never reaches the caller.
	err error
	// retryAfter asks the caller to wait; zero means no header.
	retryAfter time.Duration
	// challenge is the scheme of WWW-Authenticate of a 401; Bearer if it is empty.
	challenge string
	// allow is the Allow header of a 405.
	allow []string
	// protocols are the WebSocket subprotocols that are taken where none of them was offered.
	protocols []string
}

func (e *refusal) Error() string {
	if e.err != nil {
		return fmt.Sprintf("%s: %v", e.cause, e.err)
	}
	return e.cause
}

// retryAfterSeconds is for the header, which holds whole seconds.
func (e *refusal) retryAfterSeconds() int { return int((e.retryAfter + time.Second - 1) / time.Second) }

func (e *refusal) Unwrap() error { return e.err }

func malformed(message string) *refusal {
	return &refusal{code: http.StatusBadRequest, reason: metav1.StatusReasonBadRequest, message: message, cause: causeMalformed}
}

func unauthorized(cause string) *refusal {
	return &refusal{
		code: http.StatusUnauthorized, reason: metav1.StatusReasonUnauthorized, cause: cause,
		message: "a bearer token that the workspace accepts is needed: send it as Authorization: Bearer",
	}
}

// forbidden is one and the same for a caller without the right, a workspace that does not exist
// and an object that the caller may not know of. Do not add details to it.
func forbidden() *refusal {
	return &refusal{
		code: http.StatusForbidden, reason: metav1.StatusReasonForbidden, cause: causeDenied,
		message: "access denied: ask the workspace's administrator for the right to use this verb on the instance",
	}
}

// claimNotAccepted is for callers without a token of their own, in a workspace that has bound the
// export and does not let us ask about its users.
func claimNotAccepted() *refusal {
	e := forbidden()
	e.cause = causeClaim
	e.message = "access denied: the workspace's APIBinding has not accepted the permission claim " +
		"subjectaccessreviews.authorization.k8s.io with verb create, without which the data plane cannot ask whether you may; " +
		"ask the workspace's administrator to accept it in spec.permissionClaims of the APIBinding, or call with a bearer token"
	return e
}

// notFound is one and the same for an instance that is not there, one that this provider did
// not place and a verb that the kind does not have.
func notFound(cause string) *refusal {
	return &refusal{
		code: http.StatusNotFound, reason: metav1.StatusReasonNotFound, cause: cause,
		message: "no such instance or verb here: the instance's status.dataPlane lists its URL and verbs; one that was created a moment ago may need a few seconds",
	}
}

func methodNotAllowed(allow []string) *refusal {
	return &refusal{
		code: http.StatusMethodNotAllowed, reason: metav1.StatusReasonMethodNotAllowed, cause: causeMethod, allow: allow,
		message: "the verb does not take this method; it takes " + strings.Join(allow, ", "),
	}
}

func notReady(message string, err error) *refusal {
	return &refusal{
		code: http.StatusConflict, reason: metav1.StatusReasonConflict, cause: causeNotReady, message: message, err: err,
		retryAfter: time.Second,
	}
}

// notInDevelopment is for a verb that the runner of a component answers. No Retry-After: waiting
// does not help.
func notInDevelopment() *refusal {
	return &refusal{
		code: http.StatusConflict, reason: metav1.StatusReasonConflict, cause: causeNotDeveloped,
		message: "the instance is not in development mode: set its spec.mode to development to use this verb",
	}
}

func tooMany(cause, message string, retryAfter time.Duration) *refusal {
	return &refusal{
		code: http.StatusTooManyRequests, reason: metav1.StatusReasonTooManyRequests, cause: cause,
		message: message, retryAfter: retryAfter,
	}
}

func bodyTooLarge(limit int64) *refusal {
	return &refusal{
		code: http.StatusRequestEntityTooLarge, reason: metav1.StatusReasonRequestEntityTooLarge, cause: causeBodyTooLarge,
		message: fmt.Sprintf("the request's body is larger than %d bytes: send it in parts", limit),
	}
}

func badGateway(cause, message string, err error) *refusal {
	return &refusal{code: http.StatusBadGateway, reason: metav1.StatusReasonServiceUnavailable, cause: cause, message: message, err: err}
}

func gatewayTimeout(limit time.Duration, err error) *refusal {
	return &refusal{
		code: http.StatusGatewayTimeout, reason: metav1.StatusReasonTimeout, cause: causeTimeout, err: err,
		message: fmt.Sprintf("the instance did not begin its answer within %s: look at its log", limit),
	}
}

func unavailable(cause, message string, retryAfter time.Duration, err error) *refusal {
	return &refusal{
		code: http.StatusServiceUnavailable, reason: metav1.StatusReasonServiceUnavailable, cause: cause,
		message: message, retryAfter: max(retryAfter, time.Second), err: err,
	}
}

func stalled(limit time.Duration) *refusal {
	return &refusal{
		code: http.StatusRequestTimeout, reason: metav1.StatusReasonTimeout, cause: causeStalled,
		message: fmt.Sprintf("nothing of the request's body arrived for %s: send it again", limit),
	}
}

// writeRefusal answers with a metav1.Status. The header of the response may already hold what a
// pod sent; it is cleared, so that no pod's header rides on our answer.
func writeRefusal(w http.ResponseWriter, r *http.Request, e *refusal) {
	status := metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Message: e.message, Reason: e.reason, Code: int32(e.code),
	}
	header := w.Header()
	clear(header)
	if e.retryAfter > 0 {
		seconds := e.retryAfterSeconds()
		status.Details = &metav1.StatusDetails{RetryAfterSeconds: int32(seconds)}
		header.Set("Retry-After", strconv.Itoa(seconds))
	}
	if e.code == http.StatusUnauthorized {
		header.Set("WWW-Authenticate", cmp.Or(e.challenge, "Bearer"))
	}
	if e.code == http.StatusMethodNotAllowed {
		header.Set("Allow", strings.Join(e.allow, ", "))
	}
	if len(e.protocols) > 0 {
		header.Set(protocolHeader, strings.Join(e.protocols, ", "))
	}
	if e.code == http.StatusUpgradeRequired && r.ProtoMajor == 1 {
		header.Set("Connection", "Upgrade")
		header.Set("Upgrade", protocolWebSocket)
	}
	writeJSON(w, r, e.code, status)
}

// writeJSON answers with JSON that no browser takes for anything else.
func writeJSON(w http.ResponseWriter, r *http.Request, code int, body any) {
	data, err := json.Marshal(body)
	if err != nil {
		// Only our own types and decoded JSON come here; neither can fail to encode.
		http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
		return
	}
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Length", strconv.Itoa(len(data)+1))
	w.WriteHeader(code)
	if r.Method != http.MethodHead {
		_, _ = w.Write(append(data, '\n'))
	}
}
