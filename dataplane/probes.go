// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"fmt"
	"io"
	"net/http"
	"time"
)

const (
	pathLive  = "/livez"
	pathReady = "/readyz"
)

// probes answers what is asked without a credential: the probes and the CA bundle. It leaves the rest to
// next. /livez means that the process serves;
// /readyz that its caches are filled, that it renews its Lease on the runtime cluster (registration)
// and that it is not shutting down. A kcp that cannot be reached later does not make it unready:
// every replica would go at once, and what is cached still works.
func (s *Server) probes(next http.Handler) http.Handler {
	prefixedCA := s.opts.PathPrefix + pathCA
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
		case pathCA, prefixedCA:
			s.serveCA(w, r)
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
	now := time.Now()
	age, registered := s.handler.fence.Age(now)
	switch {
	case s.handler.draining.Err() != nil:
		return "draining"
	case !s.cache.Ready():
		return "waiting for the runtime cluster's caches"
	case !registered && !s.kinds.Ready(): // a kind that is new later concerns its own instances alone
		return "waiting for Templates and their instances"
	case !registered:
		return "waiting for its Lease on the runtime cluster"
	case !s.handler.fence.Open(now):
		return fmt.Sprintf("its Lease on the runtime cluster was renewed last %s ago", age.Round(time.Second))
	}
	return ""
}

// filled reports whether the replica could serve but for its Lease.
func (s *Server) filled() bool { return s.cache.Ready() && s.kinds.Ready() }
