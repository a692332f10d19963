// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package refusal

import (
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Invalid is a 422: the request can be read, and says what cannot be. The message names the field and the remedy.
func Invalid(message string) *Error {
	return &Error{Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid, Cause: CauseInvalid, Message: message}
}

// KeyReused is a 422: an idempotency key was used for another request.
func KeyReused(message string) *Error {
	return &Error{Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid, Cause: CauseKeyReused, Message: message}
}

// NameTaken is a 409: there is an object of the name already. Waiting does not help.
func NameTaken(message string) *Error {
	return &Error{Code: http.StatusConflict, Reason: metav1.StatusReasonAlreadyExists, Cause: CauseNameTaken, Message: message}
}

// QuotaExceeded is a 403, as Kubernetes answers it: a ResourceQuota of the tenant has no room.
func QuotaExceeded(message string) *Error {
	return &Error{Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Cause: CauseQuota, Message: message}
}

// Unanswered is a 504 for a write of which it is not known whether it was made.
func Unanswered(message string, err error) *Error {
	return &Error{Code: http.StatusGatewayTimeout, Reason: metav1.StatusReasonTimeout, Cause: CauseUnanswered, Message: message, Err: err}
}

// Gone is a 410: what was made for the request was deleted before it could be used.
func Gone(message string) *Error {
	return &Error{Code: http.StatusGone, Reason: metav1.StatusReasonGone, Cause: CauseGone, Message: message}
}
