// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package exporttest serves the virtual workspace of an APIExport to tests of what follows it.
package exporttest

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// Cluster is the logical cluster of the one object.
const Cluster = "2hx1zq5kq0a8v3mw"

// Shard is a virtual workspace on one shard. It serves the kind Thing of sandbar.dev, of which there is
// one, team-a/web in the logical cluster Cluster, with the UID "on-" and the name of the shard; and its watch.
type Shard struct {
	*httptest.Server
	// Answer decides what a GET of the one object answers; 200 and the object by default.
	Answer atomic.Int32
	// ListAnswer decides what a list answers.
	ListAnswer atomic.Int32
	// Lists counts the lists that were answered.
	Lists atomic.Int32
	// Hang, if set, is what every answer waits for.
	Hang atomic.Pointer[chan struct{}]
	// Patched is the query of the last patch.
	Patched atomic.Pointer[string]
	name    string
}

// NewShard starts a shard that serves until the test ends.
func NewShard(t *testing.T, name string) *Shard {
	t.Helper()
	s := &Shard{name: name}
	s.Answer.Store(http.StatusOK)
	s.ListAnswer.Store(http.StatusOK)
	s.Server = httptest.NewServer(s)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// partial is the type of what is watched.
const partial = `"apiVersion":"meta.k8s.io/v1","kind":"PartialObjectMetadata"`

// ServeHTTP implements http.Handler.
func (s *Shard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	object := fmt.Sprintf(`{"apiVersion":"sandbar.dev/v1alpha1","kind":"Thing","metadata":{"name":"web","namespace":"team-a",
		"uid":"on-%s","resourceVersion":"1","annotations":{"kcp.io/cluster":%q,"kcp.io/path":"root:team-a"}}}`, s.name, Cluster)
	if hang := s.Hang.Load(); hang != nil {
		<-*hang
	}
	w.Header().Set("Content-Type", "application/json")
	switch {
	case r.Method == http.MethodPatch:
		query := r.URL.Query().Encode()
		s.Patched.Store(&query)
		Status(w, http.StatusOK, object)
	case strings.HasSuffix(r.URL.Path, "/web") && s.Answer.Load() == NoSuchPath:
		http.NotFound(w, r)
	case strings.HasSuffix(r.URL.Path, "/web") && s.Answer.Load() == NoSuchWorkspace:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"workspaces.tenancy.kcp.io \"root:team\" not found",
			"reason":"NotFound","details":{"name":"root:team","group":"tenancy.kcp.io","kind":"workspaces"},"code":404}`)
	case strings.HasSuffix(r.URL.Path, "/web"):
		Status(w, int(s.Answer.Load()), object)
	case r.URL.Query().Get("watch") != "":
		// A streamed list of metadata: the object, then the bookmark that says that this was all.
		object = strings.Replace(object, `"apiVersion":"sandbar.dev/v1alpha1","kind":"Thing"`, partial, 1)
		_, _ = fmt.Fprintf(w, `{"type":"ADDED","object":%s}{"type":"BOOKMARK","object":{%s,
			"metadata":{"resourceVersion":"2","annotations":{"k8s.io/initial-events-end":"true"}}}}`, object, partial)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	default:
		s.Lists.Add(1)
		Status(w, int(s.ListAnswer.Load()),
			`{"apiVersion":"sandbar.dev/v1alpha1","kind":"ThingList","metadata":{"resourceVersion":"1"},"items":[`+object+`]}`)
	}
}

// Status answers with an object, or with what the API says instead of it.
func Status(w http.ResponseWriter, code int, ok string) {
	w.WriteHeader(code)
	if code == http.StatusOK {
		_, _ = w.Write([]byte(ok))
		return
	}
	reason := map[int]string{http.StatusNotFound: "NotFound", http.StatusForbidden: "Forbidden"}[code]
	_, _ = fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d,
		"details":{"name":"web","group":"sandbar.dev","kind":"things"}}`, reason, code)
}

// NoSuchPath is the Answer with which a shard answers as kcp does for a path that it does not know: 404, and
// no object of the API.
const NoSuchPath = -1

// NoSuchWorkspace is the Answer with which a shard answers as kcp does for the path of a workspace that it does not know, or does not know
// yet while it starts: an object is not found, and it is not the one that was asked for.
const NoSuchWorkspace = -2
