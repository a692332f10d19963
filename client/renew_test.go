// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sandbar-dev/sandbar/client"
)

func TestRenewAsksForWhatIsWanted(t *testing.T) {
	at := time.Date(2027, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, c := range map[string]struct {
		opts client.RenewOptions
		body string
	}{
		"use alone":     {client.RenewOptions{}, `{}`},
		"by a duration": {client.RenewOptions{Extend: 90 * time.Minute}, `{"extend":"1h30m0s"}`},
		"until a time":  {client.RenewOptions{Shutdown: at}, `{"shutdownTime":"2027-01-02T03:04:05Z"}`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				if got := strings.TrimSpace(string(body)); r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/renew") || got != c.body {
					t.Errorf("%s %s %s", r.Method, r.URL.Path, got)
				}
				_, _ = io.WriteString(rw, `{"lastActiveTime":"2027-01-01T00:00:00Z","shutdownTime":"2027-01-02T03:04:05Z","phase":"Ready"}`)
			})
			i, err := w.instance(t, "web")
			if err != nil {
				t.Fatal(err)
			}
			got, err := i.Renew(t.Context(), c.opts)
			if err != nil {
				t.Fatal(err)
			}
			if !got.Shutdown.Equal(at) || got.Phase != "Ready" || got.LastActive.IsZero() {
				t.Errorf("got %+v", got)
			}
		})
	}
}
