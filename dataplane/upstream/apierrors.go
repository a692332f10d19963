// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sandbar-dev/sandbar/dataplane/refusal"
)

// maxStatusBytes is more than any metav1.Status of an API server.
const maxStatusBytes = 8 << 10

var errAPIServer = errors.New("runtime API server refused")

// judgeAPIServer replaces errors of the API server itself, which name addresses and namespaces
// of the runtime cluster. A pod that answers in the same form only loses its own words.
//
// app is set if the port is the app's and not a control server's.
func judgeAPIServer(res *http.Response, app bool) *refusal.Error {
	if res.StatusCode < http.StatusBadRequest || res.ContentLength <= 0 || res.ContentLength > maxStatusBytes {
		return nil
	}
	if kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); kind != "application/json" {
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxStatusBytes)) //nolint:forbidigo // maxStatusBytes
	if err != nil {
		return refusal.BadGateway(refusal.CauseBadAnswer, "the instance gave no valid HTTP answer: look at its log", errBadAnswer)
	}
	var status metav1.Status
	if json.Unmarshal(body, &status) == nil && status.Kind == "Status" && status.APIVersion == "v1" && status.Status == metav1.StatusFailure {
		if status.Reason == metav1.StatusReasonServiceUnavailable {
			return refusal.NotListening(app, "", errAPIServer)
		}
		return refusal.BadGateway(refusal.CauseUnreachable, "the instance cannot be reached: tell the operator", errAPIServer)
	}
	res.Body = struct {
		io.Reader
		io.Closer
	}{bytes.NewReader(body), res.Body}
	return nil
}

// stripLocation takes the service proxy's own path from a redirect; the API server puts it there.
func stripLocation(h http.Header, prefix string) {
	location := h.Get("Location")
	if rest, ok := strings.CutPrefix(location, prefix); ok && (rest == "" || rest[0] == '/') {
		if rest == "" {
			rest = "/"
		}
		h.Set("Location", rest)
	}
}
