// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"crypto/sha256"
	"encoding/binary"
	"net/http"
	"sync"
	"time"

	"github.com/sandbar-dev/sandbar/pkg/contract"
	"github.com/sandbar-dev/sandbar/tenant"
)

// Question is what the authorizer asks. All of it but from and linkIssued is part of the cache's
// key.
type Question struct {
	Caller tenant.Caller
	Ref    tenant.Ref
	// Subresource is the verb of the path; verb is the Kubernetes verb of the request.
	Subresource string
	Verb        string
	// Declared tells whether the kind's Template has that verb.
	Declared bool
	// WorkspaceOnly asks for access to the workspace instead of the object.
	WorkspaceOnly bool
	// From is the address and port that the request comes from. Questions are counted by it. It is not
	// part of the key: the answer does not depend on it.
	From string
	// LinkIssued is when the preview link was issued that the caller is known by; zero if by
	// none. It is looked at behind the cache (unlessRevoked), so that links share answers.
	LinkIssued time.Time
}

// keyBuffers are for key, which every request needs.
var keyBuffers = sync.Pool{New: func() any { return new([]byte) }}

// key is SHA-256 over everything that the answer depends on, each part with its length in
// front but the first, whose length is fixed. Without the lengths, a workspace "a" with resource "bc" would share an answer with
// "ab" and "c"; without the credential, callers would share answers (Traefik, CVE-2026-71326).
func (q Question) key() Key {
	buffer, _ := keyBuffers.Get().(*[]byte)
	credential := q.Caller.CredentialKey()
	b := append((*buffer)[:0], credential[:]...)
	for _, part := range [...]string{
		q.Ref.Workspace, q.Ref.Group, q.Ref.Version, q.Ref.Resource,
		q.Ref.Namespace, q.Ref.Name, q.Subresource, q.Verb,
	} {
		b = binary.BigEndian.AppendUint64(b, uint64(len(part)))
		b = append(b, part...)
	}
	var flags byte
	if q.Declared {
		flags |= 1
	}
	if q.WorkspaceOnly {
		flags |= 2
	}
	b = append(b, flags)
	key := Key(sha256.Sum256(b))
	*buffer = b
	keyBuffers.Put(buffer)
	return key
}

// ReviewVerb is the verb of the review for a request. A WebSocket begins with a GET, and with a
// right to read, such as get on */*, a viewer would have a shell through exec: upgrades ask for
// create, as Kubernetes does for pods/exec since 1.35. Behind the verb proxy stands the tenant's app,
// to which a WebSocket is a way to read like any other.
//
// The verb renew takes POST alone, and proxy-url that and DELETE, and the export's policy grants
// nobody anything else of them. Any other method asks for create there, so that who may use the verb
// hears which methods do (405), and all others what they hear of everything.
func ReviewVerb(r *http.Request, verb string) (string, bool) {
	asked, ok := KubernetesVerb(r.Method)
	switch {
	case !ok:
	case verb == contract.RenewVerb, verb == contract.ProxyURLVerb && asked != "delete", asked == "get" && IsUpgrade(r.Header) && verb != contract.ProxyVerb:
		return "create", true
	}
	return asked, ok
}

// KubernetesVerb is the verb of the review for a method. OPTIONS asks for get: it tells about a
// resource and changes nothing.
func KubernetesVerb(method string) (string, bool) {
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
