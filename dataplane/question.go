// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"crypto/sha256"
	"encoding/binary"
	"net/http"
	"sync"
	"time"

	"github.com/sandbar-dev/sandbar/pkg/contract"
	"github.com/sandbar-dev/sandbar/tenant"
)

// question is what the authorizer asks. All of it but from and linkIssued is part of the cache's
// key.
type question struct {
	caller tenant.Caller
	ref    tenant.Ref
	// subresource is the verb of the path; verb is the Kubernetes verb of the request.
	subresource string
	verb        string
	// declared tells whether the kind's Template has that verb.
	declared bool
	// workspaceOnly asks for access to the workspace instead of the object.
	workspaceOnly bool
	// from is the address and port that the request comes from. It is for askers, and alone no part of
	// the key: the answer does not depend on it.
	from string
	// linkIssued is when the preview link was issued that the caller is known by; zero if by
	// none. It is looked at behind the cache (unlessRevoked), so that links share answers.
	linkIssued time.Time
}

// keyBuffers are for key, which every request needs.
var keyBuffers = sync.Pool{New: func() any { return new([]byte) }}

// key is SHA-256 over everything that the answer depends on, each part with its length in
// front but the first, whose length is fixed. Without the lengths, a workspace "a" with resource "bc" would share an answer with
// "ab" and "c"; without the credential, callers would share answers (Traefik, CVE-2026-71326).
func (q question) key() cacheKey {
	buffer, _ := keyBuffers.Get().(*[]byte)
	credential := q.caller.CredentialKey()
	b := append((*buffer)[:0], credential[:]...)
	for _, part := range [...]string{
		q.ref.Workspace, q.ref.Group, q.ref.Version, q.ref.Resource,
		q.ref.Namespace, q.ref.Name, q.subresource, q.verb,
	} {
		b = binary.BigEndian.AppendUint64(b, uint64(len(part)))
		b = append(b, part...)
	}
	var flags byte
	if q.declared {
		flags |= 1
	}
	if q.workspaceOnly {
		flags |= 2
	}
	b = append(b, flags)
	key := cacheKey(sha256.Sum256(b))
	*buffer = b
	keyBuffers.Put(buffer)
	return key
}

// reviewVerb is the verb of the review for a request. A WebSocket begins with a GET, and with a
// right to read, such as get on */*, a viewer would have a shell through exec: upgrades ask for
// create, as Kubernetes does for pods/exec since 1.35. Behind the verb proxy stands the tenant's app,
// to which a WebSocket is a way to read like any other.
//
// The verb renew takes POST alone, and proxy-url that and DELETE, and the export's policy grants
// nobody anything else of them. Any other method asks for create there, so that who may use the verb
// hears which methods do (405), and all others what they hear of everything.
func reviewVerb(r *http.Request, verb string) (string, bool) {
	asked, ok := kubernetesVerb(r.Method)
	switch {
	case !ok:
	case verb == contract.RenewVerb, verb == contract.ProxyURLVerb && asked != "delete", asked == "get" && isUpgrade(r.Header) && verb != contract.ProxyVerb:
		return "create", true
	}
	return asked, ok
}

// kubernetesVerb is the verb of the review for a method. OPTIONS asks for get: it tells about a
// resource and changes nothing.
func kubernetesVerb(method string) (string, bool) {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return "get", true
	case http.MethodPost:
		return "create", true
	case http.MethodPut:
		return "update", true
	case http.MethodPatch:
		return "patch", true
	case http.MethodDelete:
		return "delete", true
	}
	return "", false
}
