// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"io"
	"net/http"
)

const (
	pathLive  = "/livez"
	pathReady = "/readyz"
)

// probes answers the probes, and leaves the rest to next. /livez means that the process serves;
// /readyz that its caches are filled and that it is not shutting down. A kcp or runtime cluster
// that cannot be reached later does not make it unready: every replica would go at once, and
// what is cached still works.
func (s *Server) probes(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.Path
		if _, isPreview, _ := s.handler.previews.match(r.Host); isPreview {
			path = "" // the app's own, whatever it is
		}
		switch path {
		case pathLive:
			answerProbe(w, "")
		case pathReady:
			answerProbe(w, s.notReady())
		default:
			next.ServeHTTP(w, r)
		}
	})
}

func answerProbe(w http.ResponseWriter, notReady string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if notReady != "" {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, notReady+"\n")
		return
	}
	_, _ = io.WriteString(w, "ok\n")
}

// notReady says why the server is not ready; empty when it is.
func (s *Server) notReady() string {
	switch {
	case s.handler.draining.Err() != nil:
		return "draining"
	case !s.cache.ready():
		return "waiting for the runtime cluster's caches"
	case !s.kinds.ready():
		return "waiting for Templates and their instances"
	}
	return ""
}
