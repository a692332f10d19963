// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestProfilesAreServedOnThePrivateListenerOnly(t *testing.T) {
	w := newWorld(t, http.NotFoundHandler())
	res, err := w.client.Get(w.metrics + "/debug/pprof/goroutine?debug=1")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if body, _ := io.ReadAll(res.Body); res.StatusCode != http.StatusOK || !strings.Contains(string(body), "goroutine profile") {
		t.Fatalf("the private listener has no profiles: %d %.100s", res.StatusCode, body)
	}
	for _, path := range []string{
		"/debug/pprof", "/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/profile?seconds=1", "/debug/pprof/goroutine?debug=1",
		"/debug/pprof/cmdline", "/debug/vars", "/metrics", "//debug/pprof/heap", "/./debug/pprof/heap", "/debug%2fpprof/heap",
		"/%64ebug/pprof/heap", "/livez/../debug/pprof/heap", "/dataplane/../debug/pprof/heap", "/DEBUG/pprof/heap",
		"/dataplane/clusters/root:acme:dev/debug/pprof/heap", "/services/x/debug/pprof/heap",
	} {
		for _, method := range []string{"GET", "POST", "HEAD"} {
			t.Run(method+" "+path, func(t *testing.T) {
				// By hand: a client would clean the path.
				conn := w.dial()
				fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\nAuthorization: Bearer %s\r\n\r\n", method, path, adminToken)
				answer, _ := io.ReadAll(conn)
				if status, _, _ := strings.Cut(strings.TrimPrefix(string(answer), "HTTP/1.1 "), " "); !strings.HasPrefix(status, "4") {
					t.Errorf("the public listener answers %.100q", answer)
				}
			})
		}
	}
}
