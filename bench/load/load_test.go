// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package load

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// A rival that uses up its ports answers 502. Once that ended the whole benchmark.
func TestFailuresAreCountedAndTheRestIsMeasured(t *testing.T) {
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1)%3 == 0 {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		w.Header().Set("Content-Length", "2")
		_, _ = io.WriteString(w, "ok")
	}))
	defer server.Close()
	subject := Subject{Name: "rival", Address: strings.TrimPrefix(server.URL, "http://")}
	for name, measure := range map[string]func() (Result, error){
		"closed": func() (Result, error) { return Closed(t.Context(), subject, "/", 4, 200*time.Millisecond) },
		"open":   func() (Result, error) { return Open(t.Context(), subject, "/", 4, 200, 200*time.Millisecond) },
	} {
		got, err := measure()
		var failed *FailedError
		if !errors.As(err, &failed) || failed.Failed != got.Failed || failed.Of != got.Failed+len(got.Latencies) || !errors.Is(err, errAnswer) {
			t.Errorf("%s: %+v, error %v", name, got.Failed, err)
		}
		if got.Failed == 0 || len(got.Latencies) == 0 {
			t.Errorf("%s: %d failed and %d were answered", name, got.Failed, len(got.Latencies))
		}
	}
}

func TestASubjectThatIsNotThereFailsAll(t *testing.T) {
	_, err := Closed(t.Context(), Subject{Name: "rival", Address: "127.0.0.1:1"}, "/", 3, time.Second)
	var failed *FailedError
	if !errors.As(err, &failed) || failed.Failed != 3 {
		t.Errorf("error %v", err)
	}
}
