// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"net/http"
	"testing"
)

// What climbs is refused on all ways, and nothing else changes on its way.
func TestTailsThatClimbAreRefusedForEveryVerb(t *testing.T) {
	w := newPreviewWorld(t, recorder())
	session := w.enter(w.link(""))
	for _, tail := range []string{"/%e0%80%ae%e0%80%ae/x", "/%ef%bc%8e%ef%bc%8e/x", "/.%ff./x", "/%25zz/%252e%252e/x", "/%25252e%25252e/x"} {
		for _, verb := range []string{"proxy", "log", "components/api/restart"} {
			res, body := w.do("GET", demo+verb+tail, adminToken, nil)
			wantStatus(t, res, body, http.StatusBadRequest)
		}
		if res, _ := w.browse("GET", tail, session); res.StatusCode != http.StatusBadRequest {
			t.Errorf("%s on a preview: %d", tail, res.StatusCode)
		}
	}
	for _, tail := range []string{"/@scope%2fpkg/%5B...slug%5D.js", "/%E2%80%A6/100%25/%B0%A1;v=1"} {
		if got := w.received("GET", demo+"proxy"+tail, ""); got.URI != tail {
			t.Errorf("%s reached the pod as %s", tail, got.URI)
		}
	}
}

// There is one status; what is behind it in a path would be the name of something else.
func TestVerbsWithoutPathsBelowThem(t *testing.T) {
	w := newPreviewWorld(t, recorder())
	for path, code := range map[string]int{
		"status": http.StatusOK, "status/": http.StatusNotFound, "status/x": http.StatusNotFound, "status/proxy/x": http.StatusNotFound,
		"status/%2fx": http.StatusNotFound, "components/api/status": http.StatusNotFound, "ports/80/status": http.StatusNotFound,
		"podlog/x": http.StatusBadRequest, "ports/80/log": http.StatusNotFound,
	} {
		if res, body := w.do("GET", demo+path, adminToken, nil); res.StatusCode != code {
			t.Errorf("%s: %d %s, want %d", path, res.StatusCode, body, code)
		}
	}
	for _, path := range []string{"proxy-url/", "proxy-url/x", "renew/", "renew/x", "ports/80/renew", "components/api/renew"} {
		if res, body := w.do("POST", demo+path, adminToken, nil); res.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %d %s", path, res.StatusCode, body)
		}
	}
}
