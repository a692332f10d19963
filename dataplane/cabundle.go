// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"net/http"
	"strconv"

	"github.com/sandbar-dev/sandbar/dataplane/refusal"
)

// pathCA is where everybody gets the CA bundle that verifies the data plane.
const pathCA = "/dataplane/ca"

// serveCA answers the bundle of the InfrastructureProvider, byte for byte: every APIBinding has its
// SHA-256 (package platform). It asks for no credential, since a client needs the bundle before it may
// send one; a bundle is no secret. What makes it trustworthy is the hash, which the client has from kcp,
// and not this answer, which anybody between the two could have written.
func (s *Server) serveCA(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		refusal.Write(w, r, refusal.MethodNotAllowed([]string{http.MethodGet, http.MethodHead}))
		return
	}
	bundle := s.settings.now().caBundle
	if len(bundle) == 0 {
		e := refusal.NotFound(refusal.CauseNoInstance)
		e.Message = "this data plane has no CA bundle of its own: verify it with the roots of your system"
		refusal.Write(w, r, e)
		return
	}
	header := w.Header()
	header.Set("Content-Type", "application/x-pem-file")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Length", strconv.Itoa(len(bundle)))
	if r.Method != http.MethodHead {
		_, _ = w.Write(bundle)
	}
}
