// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package refusal

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// toldCauses are those that clients act upon. Of the others they learn the code and the reason alone.
var toldCauses = map[string]metav1.CauseType{
	CauseSuspended: sandbarv1alpha1.CauseSuspended,
	CauseExpired:   sandbarv1alpha1.CauseExpired,
}

// Write answers with a metav1.Status. The header of the response may already hold what a
// pod sent; it is cleared, so that no pod's header rides on our answer.
func Write(w http.ResponseWriter, r *http.Request, e *Error) {
	status := metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Message: e.Message, Reason: e.Reason, Code: int32(e.Code),
	}
	header := w.Header()
	clear(header)
	if cause, ok := toldCauses[e.Cause]; ok {
		status.Details = &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: cause, Message: e.Message}}}
	}
	if e.RetryAfter > 0 {
		seconds := e.RetryAfterSeconds()
		status.Details = cmp.Or(status.Details, &metav1.StatusDetails{})
		status.Details.RetryAfterSeconds = int32(seconds)
		header.Set("Retry-After", strconv.Itoa(seconds))
	}
	e.EndConnection(header)
	if e.Code == http.StatusUnauthorized {
		header.Set("WWW-Authenticate", cmp.Or(e.Challenge, "Bearer"))
	}
	if e.Code == http.StatusMethodNotAllowed {
		header.Set("Allow", strings.Join(e.Allow, ", "))
	}
	if len(e.Protocols) > 0 {
		header.Set("Sec-Websocket-Protocol", strings.Join(e.Protocols, ", "))
	}
	if e.Code == http.StatusUpgradeRequired && r.ProtoMajor == 1 {
		header.Set("Connection", "Upgrade")
		header.Set("Upgrade", "websocket")
	}
	WriteJSON(w, r, e.Code, status)
}

// WriteJSON answers with JSON that no browser takes for anything else.
func WriteJSON(w http.ResponseWriter, r *http.Request, code int, body any) {
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
