// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/sandbar-dev/sandbar/dataplane/respond"
)

// What decides whether a pod gets a proof is the Template's word, and the pod's own spec.
// A pod that accepts the connection and says nothing is not one that ends connections.
func TestAPodThatHangsAtTheChallengeIsSaidToHang(t *testing.T) {
	c := &Call{Writer: &respond.Writer{}, Request: httptest.NewRequest(http.MethodGet, "/", nil)}
	for name, ends := range map[string]struct {
		err  error
		code int
	}{
		"it says nothing":                        {os.ErrDeadlineExceeded, http.StatusGatewayTimeout},
		"it says nothing through the API server": {context.DeadlineExceeded, http.StatusGatewayTimeout},
		"it ends the connection":                 {io.EOF, http.StatusBadGateway},
	} {
		refused := (&Ways{}).failed(t.Context(), c, nil, fmt.Errorf("%w: waiting for the pod's challenge: %w", errNotAccepted, ends.err))
		if refused.Code != ends.code || refused.Code == http.StatusGatewayTimeout && !strings.Contains(refused.Message, challengeTimeout.String()) {
			t.Errorf("%s: %d, %q", name, refused.Code, refused.Message)
		}
	}
}
