// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"encoding/json"
	"net/http"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
)

const virtualPrefix = "/services/apiexport/provider/sandbar.dev/clusters/"

// fakeVirtual is the virtual workspace of the export: the bindings, and reviews about subjects.
// It answers to the provider's token and to no other. fakeKCP.mu guards it.
type fakeVirtual struct {
	bindings map[string]fakeBinding // by logical cluster name
	watchers map[chan []byte]bool
	// down makes it answer 500.
	down bool
	// reviewed are the reviews that were asked.
	reviewed []authorizationv1.SubjectAccessReviewSpec
}

type fakeBinding struct {
	path, phase string
	accepted    bool
	deleting    bool
}

func (b fakeBinding) object(cluster string) map[string]any {
	metadata := map[string]any{
		"name": "sandbar.dev", "resourceVersion": "1", "annotations": map[string]any{"kcp.io/cluster": cluster, "kcp.io/path": b.path},
	}
	if b.deleting {
		metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
	}
	state := map[bool]string{true: "Accepted", false: "Rejected"}[b.accepted]
	return map[string]any{
		"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding", "metadata": metadata,
		"spec": map[string]any{
			"reference": map[string]any{"export": map[string]any{"path": "root:sandbar", "name": "sandbar.dev"}},
			"permissionClaims": []any{map[string]any{
				"group": "authorization.k8s.io", "resource": "subjectaccessreviews", "verbs": []any{"create"},
				"selector": map[string]any{"matchAll": true}, "state": state,
			}},
		},
		"status": map[string]any{"phase": b.phase},
	}
}

// bind sets a workspace's binding and tells those who watch.
func (k *fakeKCP) bind(cluster string, b fakeBinding) {
	k.set(func() {
		event := "MODIFIED"
		if _, ok := k.virtual.bindings[cluster]; !ok {
			event = "ADDED"
		}
		k.virtual.bindings[cluster] = b
		k.virtual.tell(event, b.object(cluster))
	})
}

// unbind removes a workspace's binding and tells those who watch.
func (k *fakeKCP) unbind(cluster string) {
	k.set(func() {
		gone := k.virtual.bindings[cluster]
		delete(k.virtual.bindings, cluster)
		k.virtual.tell("DELETED", gone.object(cluster))
	})
}

func (v *fakeVirtual) tell(event string, object map[string]any) {
	line, _ := json.Marshal(map[string]any{"type": event, "object": object})
	for w := range v.watchers {
		w <- line
	}
}

// serveVirtual answers what the provider itself asks; false if the request is not the provider's.
func (k *fakeKCP) serveVirtual(w http.ResponseWriter, r *http.Request) bool {
	isSlices := strings.HasSuffix(r.URL.Path, "/apiexportendpointslices")
	rest, isVirtual := strings.CutPrefix(r.URL.Path, virtualPrefix)
	switch {
	case !isSlices && !isVirtual:
		return false
	case r.Header.Get("Authorization") != "Bearer "+providerToken:
		w.WriteHeader(http.StatusUnauthorized)
	case isSlices:
		k.list(w, r, "APIExportEndpointSlice", map[string]any{
			"apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIExportEndpointSlice", "metadata": map[string]any{"name": "sandbar.dev", "resourceVersion": "1"},
			"status": map[string]any{"endpoints": []any{map[string]any{"url": k.URL + strings.TrimSuffix(virtualPrefix, "/clusters/")}}},
		})
	case strings.HasPrefix(rest, "*/"):
		k.mu.Lock()
		var all []map[string]any
		for cluster, b := range k.virtual.bindings {
			all = append(all, b.object(cluster))
		}
		k.mu.Unlock()
		k.list(w, r, "APIBinding", all...)
	default:
		k.mu.Lock()
		defer k.mu.Unlock()
		k.serveBound(w, r, strings.Split(rest, "/"))
	}
	return true
}

// list answers a list, or a watch until the client leaves.
func (k *fakeKCP) list(w http.ResponseWriter, r *http.Request, kind string, items ...map[string]any) {
	query := r.URL.Query()
	switch {
	case query.Get("sendInitialEvents") != "":
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnprocessableEntity)
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`))
	case query.Get("watch") == "":
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{
			"apiVersion": "apis.kcp.io/v1alpha2", "kind": kind + "List", "metadata": map[string]any{"resourceVersion": "1"}, "items": items,
		})
	default:
		k.watch(w, r, kind == "APIBinding")
	}
}

func (k *fakeKCP) watch(w http.ResponseWriter, r *http.Request, bindings bool) {
	events := make(chan []byte, 100)
	if bindings {
		k.set(func() {
			if k.virtual.watchers == nil {
				k.virtual.watchers = map[chan []byte]bool{}
			}
			k.virtual.watchers[events] = true
		})
		defer k.set(func() { delete(k.virtual.watchers, events) })
	}
	w.Header().Set("Content-Type", "application/json")
	_ = http.NewResponseController(w).Flush()
	for {
		select {
		case <-r.Context().Done():
			return
		case <-k.closing:
			return
		case line := <-events:
			_, _ = w.Write(append(line, '\n'))
			_ = http.NewResponseController(w).Flush()
		}
	}
}

// serveBound answers in one bound workspace, as kcp does: without an accepted claim a review is
// forbidden, and without a binding everything is.
func (k *fakeKCP) serveBound(w http.ResponseWriter, r *http.Request, parts []string) {
	b, ok := k.virtual.bindings[parts[0]]
	isReview := strings.HasSuffix(r.URL.Path, "/subjectaccessreviews")
	switch {
	case k.virtual.down || k.down:
		w.WriteHeader(http.StatusInternalServerError)
	case !ok || isReview && !b.accepted:
		w.WriteHeader(http.StatusForbidden)
	case isReview:
		k.reviews.Add(1)
		var review authorizationv1.SubjectAccessReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		k.virtual.reviewed = append(k.virtual.reviewed, review.Spec)
		review.Status.Allowed = allowed(k.rights["user:"+review.Spec.User], review.Spec.ResourceAttributes)
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(review)
	default:
		k.gets.Add(1)
		k.get(w, map[string]bool{"*": true}, parts[0], parts)
	}
}
