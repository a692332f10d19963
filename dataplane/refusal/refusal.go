// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package refusal

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// StatusClientClosed is what an access line says of a caller that left before the
// answer began (nginx's convention). It is never sent.
const StatusClientClosed = 499

// PreviewChallenge is the scheme of WWW-Authenticate on preview hosts, where tokens are not taken.
const PreviewChallenge = "Sandbar-Preview"

// Error is the only kind of error that ends a request. Its message goes to the caller: it
// says what to do next and names nothing that the caller may not know.
type Error struct {
	Code    int
	Reason  metav1.StatusReason
	Message string
	// Cause is one of the constants of causes.go.
	Cause string
	// Err is for the log only; it never reaches the caller.
	Err error
	// RetryAfter asks the caller to wait; zero means no header.
	RetryAfter time.Duration
	// Challenge is the scheme of WWW-Authenticate of a 401; Bearer if it is empty.
	Challenge string
	// Reload is after how many seconds a browser loads the page again; zero: as Refresh says.
	Reload int
	// Renew is where a browser gets another session for the page that it asked for; empty for nowhere.
	Renew string
	// Allow is the Allow header of a 405.
	Allow []string
	// Protocols are the WebSocket subprotocols that are taken where none of them was offered.
	Protocols []string
}

func (e *Error) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s: %v", e.Cause, e.Err)
	}
	return e.Cause
}

// RetryAfterSeconds is for the header, which holds whole seconds.
func (e *Error) RetryAfterSeconds() int { return int((e.RetryAfter + time.Second - 1) / time.Second) }

// EndConnection has the caller's connection end after the answer if another replica has to serve the
// next request: a proxy in front keeps connections, over HTTP/2 a single one.
func (e *Error) EndConnection(header http.Header) {
	if e.Cause == CauseFenced {
		header.Set("Connection", "close")
	}
}

func (e *Error) Unwrap() error { return e.Err }

// Malformed is a 400 for a request whose form is wrong; the message says how it should be.
func Malformed(message string) *Error {
	return &Error{Code: http.StatusBadRequest, Reason: metav1.StatusReasonBadRequest, Message: message, Cause: CauseMalformed}
}

// TargetTooLong is a 414 that names the limit in bytes.
func TargetTooLong(limit int) *Error {
	return &Error{
		Code: http.StatusRequestURITooLong, Reason: metav1.StatusReasonBadRequest, Cause: CauseMalformed,
		Message: fmt.Sprintf("the path and the query are longer than %d bytes: send what is long in the body, and a long command as a file (sandbar cp) or as input", limit),
	}
}

// Unauthorized is a 401: there is no credential, or kcp does not know it.
func Unauthorized(cause string) *Error {
	return &Error{
		Code: http.StatusUnauthorized, Reason: metav1.StatusReasonUnauthorized, Cause: cause,
		Message: "a bearer token that the workspace accepts is needed: send it as Authorization: Bearer",
	}
}

// Forbidden is one and the same for a caller without the right, a workspace that does not exist
// and an object that the caller may not know of. Do not add details to it.
func Forbidden() *Error {
	return &Error{
		Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Cause: CauseDenied,
		Message: "access denied: ask the workspace's administrator for the right to use this verb on the instance",
	}
}

// ForbiddenByName is Forbidden for callers without a token of their own, of whom kcp can be asked
// only where the workspace lets it. It is one and the same whether they lack the right, the workspace
// has not accepted the claim, or there is no such workspace: which of these it is would tell who
// may not know that there is one, and whoever administers the workspace can look at all of them.
func ForbiddenByName(cause string) *Error {
	e := Forbidden()
	e.Cause = cause
	e.Message = "access denied: ask the workspace's administrator for the right to use this verb on the instance, and to accept the permission claim " +
		"subjectaccessreviews.authorization.k8s.io with verb create in spec.permissionClaims of the APIBinding, without which " +
		"the data plane cannot ask what callers without a token may do; or call with a bearer token"
	return e
}

// NotFound is one and the same for an instance that is not there, one that this provider did
// not place and a verb that the kind does not have.
func NotFound(cause string) *Error {
	return &Error{
		Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound, Cause: cause,
		Message: "no such instance or verb here: the instance's status.dataPlane lists its URL and verbs; one that was created a moment ago may need a few seconds",
	}
}

// NoComponent is a 404 for a part that an instance does not have. Only those hear of it who have the right to the verb.
func NoComponent(component string) *Error {
	return &Error{
		Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound, Cause: CauseNoComponent,
		Message: "the instance has no component " + component + " that runs: its status.dataPlane.verbs lists the verbs of its components, and status.components what is wrong with one",
	}
}

// NamesNoComponent is a 404 for a verb of an instance all of whose pods are its components'.
func NamesNoComponent() *Error {
	return &Error{
		Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound, Cause: CauseNoComponent,
		Message: "the instance has its pods in components: name one, …/components/<component>/<verb>; its status.dataPlane.verbs lists them",
	}
}

// MethodNotAllowed is a 405 with the methods that the verb takes.
func MethodNotAllowed(allow []string) *Error {
	return &Error{
		Code: http.StatusMethodNotAllowed, Reason: metav1.StatusReasonMethodNotAllowed, Cause: CauseMethod, Allow: allow,
		Message: "the verb does not take this method; it takes " + strings.Join(allow, ", "),
	}
}

// NotReady is a 409 for an instance that is not in the state that the verb needs, for a moment.
func NotReady(message string, err error) *Error {
	return &Error{
		Code: http.StatusConflict, Reason: metav1.StatusReasonConflict, Cause: CauseNotReady, Message: message, Err: err,
		RetryAfter: time.Second,
	}
}

// NotInDevelopment is for a verb that the runner of a component answers. No Retry-After: waiting
// does not help.
func NotInDevelopment() *Error {
	return &Error{
		Code: http.StatusConflict, Reason: metav1.StatusReasonConflict, Cause: CauseNotDeveloped,
		Message: "the instance is not in development mode: set its spec.mode to development to use this verb",
	}
}

// TooMany is a 429: one of the limits refused the request.
func TooMany(cause, message string, retryAfter time.Duration) *Error {
	return &Error{
		Code: http.StatusTooManyRequests, Reason: metav1.StatusReasonTooManyRequests, Cause: cause,
		Message: message, RetryAfter: retryAfter,
	}
}

// BodyTooLarge is a 413 that names the limit in bytes.
func BodyTooLarge(limit int64) *Error {
	return &Error{
		Code: http.StatusRequestEntityTooLarge, Reason: metav1.StatusReasonRequestEntityTooLarge, Cause: CauseBodyTooLarge,
		Message: fmt.Sprintf("the request's body is larger than %d bytes: send it in parts", limit),
	}
}

// BadGateway is a 502: the pod could not be reached, or gave no valid answer.
func BadGateway(cause, message string, err error) *Error {
	return &Error{Code: http.StatusBadGateway, Reason: metav1.StatusReasonServiceUnavailable, Cause: cause, Message: message, Err: err}
}

// NotListening is for a pod that accepts no connection. Where that is the app's affair, it says the rule that
// apps miss most: a server that listens on loopback alone, or on another port, runs and is not reached.
func NotListening(app bool, port string, err error) *Error {
	if !app {
		return BadGateway(CauseUnreachable, "the instance's pod does not accept connections: it is starting or ending, or its process fails; try again", err)
	}
	at := ""
	if port != "" {
		at = " on port " + port
	}
	e := BadGateway(CauseUnreachable, "the instance's pod does not accept connections"+at+
		": is its process listening? It must listen at that port, on all addresses (0.0.0.0 or ::) and not on loopback (127.0.0.1, localhost) alone."+
		" If it is still starting, try again; with a readinessProbe in its pod template the instance is Ready only once it listens", err)
	e.RetryAfter = appPatience
	return e
}

// appPatience is after how long an app that did not listen may listen: most start within seconds.
const appPatience = 2 * time.Second

// DialledPort is the port that was dialled; empty if it is not known.
func DialledPort(dial *net.OpError) string {
	if dial.Addr == nil {
		return ""
	}
	_, port, err := net.SplitHostPort(dial.Addr.String())
	if err != nil {
		return ""
	}
	return port
}

// GatewayTimeout is a 504: the pod did not begin its answer within the limit.
func GatewayTimeout(limit time.Duration, err error) *Error {
	return &Error{
		Code: http.StatusGatewayTimeout, Reason: metav1.StatusReasonTimeout, Cause: CauseTimeout, Err: err,
		Message: fmt.Sprintf("the instance did not begin its answer within %s: look at its log", limit),
	}
}

// Unavailable is a 503 that asks to try again, after a second at the soonest.
func Unavailable(cause, message string, retryAfter time.Duration, err error) *Error {
	return &Error{
		Code: http.StatusServiceUnavailable, Reason: metav1.StatusReasonServiceUnavailable, Cause: cause,
		Message: message, RetryAfter: max(retryAfter, time.Second), Err: err,
	}
}

// Fenced refuses, and cuts, whatever comes to a replica that has lost the runtime cluster. The caller
// learns that another replica may serve it.
func Fenced() *Error {
	return Unavailable(CauseFenced, "this replica of the data plane has lost the cluster that runs the instances: send the request again in a moment, another replica may take it", 5*time.Second, nil)
}

// Unrecorded refuses, and cuts, a use that the controllers could not be told of.
func Unrecorded() *Error {
	return Unavailable(CauseUnrecorded, "the use of the instance cannot be recorded now, and without that it might be put to sleep or deleted under you: send the request again", 5*time.Second, nil)
}

// Stalled is a 408: the caller stopped in the middle of its body.
func Stalled(limit time.Duration) *Error {
	return &Error{
		Code: http.StatusRequestTimeout, Reason: metav1.StatusReasonTimeout, Cause: CauseStalled,
		Message: fmt.Sprintf("nothing of the request's body arrived for %s: send it again", limit),
	}
}

// HidesWhatExists reports whether a refusal is one of those that are the same for what exists and
// for what does not.
func (e *Error) HidesWhatExists() bool {
	return e.Cause == CauseDenied || e.Cause == CauseClaim || e.Cause == CauseBadIdentity
}

// refreshSeconds is how soon a page that tells of something passing is loaded again.
const refreshSeconds = 3

// Refresh is after how many seconds the page of a refusal is loaded again; 0 for never, when only
// somebody's doing helps. A browser does this without a script, which the page's policy forbids.
func (e *Error) Refresh() int {
	switch {
	case e.Cause == CauseWaking:
		return e.RetryAfterSeconds()
	case e.Code == http.StatusServiceUnavailable, e.Code == http.StatusConflict && e.RetryAfter > 0:
		return max(refreshSeconds, e.RetryAfterSeconds())
	case e.Code == http.StatusBadGateway, e.Code == http.StatusGatewayTimeout:
		return refreshSeconds
	}
	return 0
}

// PreviewRevoked is a 401 for a preview's link or session that the tenant has revoked.
func PreviewRevoked() *Error {
	return &Error{
		Code: http.StatusUnauthorized, Reason: metav1.StatusReasonUnauthorized, Cause: CausePreviewRevoked, Challenge: PreviewChallenge,
		Message: "the previews of this instance that were open have been ended: open the preview again from where you got its link",
	}
}

// CauseOf returns the limit of ours that ended a context; nil if another reason did.
func CauseOf(ctx context.Context) *Error {
	var refused *Error
	if errors.As(context.Cause(ctx), &refused) {
		return refused
	}
	return nil
}
