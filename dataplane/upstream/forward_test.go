// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sandbar-dev/sandbar/dataplane/locate"
	"github.com/sandbar-dev/sandbar/dataplane/refusal"
	"github.com/sandbar-dev/sandbar/dataplane/respond"
)

// Errors of net/http quote what they could not read. The access line has the error of a refusal.
func TestAnErrorThatQuotesThePodIsNotLogged(t *testing.T) {
	c := &Call{Writer: &respond.Writer{}, Request: httptest.NewRequest(http.MethodGet, "/", nil)}
	refused := (&Ways{}).failed(t.Context(), c, &locate.Target{}, errors.New(`malformed HTTP response "what the pod says"`))
	if refused.Code != http.StatusBadGateway || refused.Cause != refusal.CauseBadAnswer || strings.Contains(refused.Error()+refused.Message, "what the pod says") {
		t.Errorf("got %d %s: %s", refused.Code, refused.Message, refused.Error())
	}
}
