// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// fakeKCP answers what the data plane asks as callers, the way a single kcp shard does: the path of
// an unknown workspace is 404, no access 403, a bad token 401.
type fakeKCP struct {
	*httptest.Server

	mu        sync.Mutex
	clusters  map[string]string // workspace path or name to logical cluster name
	instances map[string]*metav1.PartialObjectMetadata
	rights    map[string]map[string]bool // token to "verb resource/subresource", or "*"
	down      bool
	// frontProxy has it answer 403 in workspaces that are not there, before it looks at a token.
	frontProxy bool
	// shutdown is spec.lifecycle.shutdownTime of all instances.
	shutdown metav1.Time
	// hold, if set, is received from before each answer.
	hold chan struct{}
	// virtual is the virtual workspace of the APIExport.
	virtual fakeVirtual
	// closing ends the watches: a server waits for its requests when it closes.
	closing chan struct{}
	once    sync.Once

	who fakeWho
	// boxes are the Sandboxes of all workspaces.
	boxes fakeBoxes

	gets    atomic.Int64
	reviews atomic.Int64
}

func newFakeKCP(t testing.TB) *fakeKCP {
	t.Helper()
	k := &fakeKCP{
		clusters:  map[string]string{"root:acme:dev": "cluster1", "cluster1": "cluster1"},
		instances: map[string]*metav1.PartialObjectMetadata{},
		rights:    map[string]map[string]bool{},
		closing:   make(chan struct{}),
	}
	k.virtual.bindings = map[string]fakeBinding{"cluster1": {path: "root:acme:dev", phase: "Bound", accepted: true}}
	k.Server = httptest.NewUnstartedServer(http.HandlerFunc(k.serve))
	k.Config.ErrorLog = log.New(io.Discard, "", 0)
	k.StartTLS()
	t.Cleanup(k.Close)
	return k
}

// Close ends the server, with its watches.
func (k *fakeKCP) Close() {
	k.once.Do(func() { close(k.closing) })
	k.Server.Close()
}

func (k *fakeKCP) set(change func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	change()
}

// grant gives a token rights, for example "get sandboxrunners/log".
func (k *fakeKCP) grant(token string, rights ...string) {
	k.set(func() {
		k.rights[token] = map[string]bool{"access": true}
		for _, right := range rights {
			k.rights[token][right] = true
		}
	})
}

func (k *fakeKCP) addInstance(cluster, namespace, name string, uid types.UID) {
	k.set(func() {
		k.instances[cluster+"/"+namespace+"/sandboxrunners/"+name] = &metav1.PartialObjectMetadata{
			TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"},
			ObjectMeta: metav1.ObjectMeta{
				Name: name, Namespace: namespace, UID: uid,
				Annotations: map[string]string{"kcp.io/cluster": cluster},
			},
		}
	})
}

func (k *fakeKCP) serve(w http.ResponseWriter, r *http.Request) {
	if k.serveVirtual(w, r) || k.serveWho(w, r) || k.serveBoxes(w, r) {
		return
	}
	k.mu.Lock()
	hold := k.hold
	k.mu.Unlock()
	if hold != nil {
		<-hold
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/clusters/"), "/")
	rights, known := k.rights[token]
	cluster, exists := k.clusters[parts[0]]
	isReview := strings.HasSuffix(r.URL.Path, "/selfsubjectaccessreviews")
	if isReview {
		k.reviews.Add(1)
	} else {
		k.gets.Add(1)
	}
	switch {
	case k.down:
		w.WriteHeader(http.StatusInternalServerError)
	case !exists && k.frontProxy:
		w.WriteHeader(http.StatusForbidden)
	case !exists && strings.Contains(parts[0], ":"):
		w.WriteHeader(http.StatusNotFound) // before it looks at the token, as kcp does
	case !known || k.who.only[token] != "" && k.who.only[token] != parts[0]:
		w.WriteHeader(http.StatusUnauthorized)
	case !exists:
		w.WriteHeader(http.StatusForbidden)
	case !rights["access"]:
		w.WriteHeader(http.StatusForbidden)
	case isReview:
		k.review(w, r, rights)
	case r.Method == http.MethodPatch:
		k.patch(w, r, rights, cluster, parts)
	default:
		// clusters/{ws}/apis/{group}/{version}/namespaces/{ns}/{resource}/{name}
		k.get(w, rights, cluster, parts)
	}
}

func (k *fakeKCP) review(w http.ResponseWriter, r *http.Request, rights map[string]bool) {
	var review authorizationv1.SelfSubjectAccessReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	review.Status.Allowed = allowed(rights, review.Spec.ResourceAttributes)
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(review)
}

// allowed answers a review; without attributes of a resource it asks for access to the workspace.
func allowed(rights map[string]bool, a *authorizationv1.ResourceAttributes) bool {
	if a == nil {
		return rights["access"]
	}
	resource := a.Resource
	if a.Subresource != "" {
		resource += "/" + a.Subresource
	}
	return rights["*"] || rights[fmt.Sprintf("%s %s", a.Verb, resource)]
}

// patch takes over the annotations and the shutdown time of a merge patch.
func (k *fakeKCP) patch(w http.ResponseWriter, r *http.Request, rights map[string]bool, cluster string, parts []string) {
	var patch struct {
		metav1.PartialObjectMetadata
		lifetime
	}
	if len(parts) != 8 || r.Header.Get("Content-Type") != "application/merge-patch+json" || json.NewDecoder(r.Body).Decode(&patch) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	obj, ok := k.instances[cluster+"/"+parts[5]+"/"+parts[6]+"/"+parts[7]]
	switch {
	case !rights["*"] && !rights["patch "+parts[6]]:
		w.WriteHeader(http.StatusForbidden)
	case !ok:
		w.WriteHeader(http.StatusNotFound)
	default:
		maps.Copy(obj.Annotations, patch.Annotations)
		if at := patch.Spec.Lifecycle.ShutdownTime; at != nil {
			k.shutdown = *at
		}
		k.get(w, map[string]bool{"*": true}, cluster, parts)
	}
}

func (k *fakeKCP) get(w http.ResponseWriter, rights map[string]bool, cluster string, parts []string) {
	if len(parts) != 8 {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if !rights["*"] && !rights["get "+parts[6]] {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	obj, ok := k.instances[cluster+"/"+parts[5]+"/"+parts[6]+"/"+parts[7]]
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	lifecycle := map[string]any{}
	if !k.shutdown.IsZero() {
		lifecycle["shutdownTime"] = k.shutdown
	}
	_ = json.NewEncoder(w).Encode(struct {
		*metav1.PartialObjectMetadata
		Spec   map[string]any `json:"spec"`
		Status map[string]any `json:"status"`
	}{obj, map[string]any{"lifecycle": lifecycle}, map[string]any{"phase": "Ready"}})
}
