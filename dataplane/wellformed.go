// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sandbar-dev/sandbar/dataplane/refusal"
)

// wellFormed refuses what net/http refuses in HTTP/1 and lets pass in HTTP/2, so that what is sent
// on does not depend on the protocol that a caller chose.
func wellFormed(r *http.Request) *refusal.Error {
	if !httpguts.ValidHostHeader(r.Host) {
		// The pod gets it as X-Forwarded-Host and builds links of it.
		return refusal.Malformed("the host is not host:port")
	}
	// An HTTP/2 request whose length is no number counts as one without a body.
	if lengths := r.Header["Content-Length"]; len(lengths) > 1 || len(lengths) == 1 && strings.Trim(lengths[0], "0123456789") != "" {
		return refusal.Malformed("the Content-Length is not a number")
	}
	for _, expectation := range r.Header["Expect"] {
		if !strings.EqualFold(expectation, "100-continue") {
			return &refusal.Error{
				Code: http.StatusExpectationFailed, Reason: metav1.StatusReasonBadRequest, Cause: refusal.CauseMalformed,
				Message: "the only expectation that is met is 100-continue",
			}
		}
	}
	return nil
}
