// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	authenticationv1 "k8s.io/api/authentication/v1"
)

// fakeWho answers the question of callers who they are.
type fakeWho struct {
	mu    sync.Mutex
	users map[string]authenticationv1.UserInfo // by token
	// workspaces are those in which it was asked.
	workspaces []string
	// only are the workspaces that alone know a token, by token; fakeKCP.mu guards it.
	only map[string]string
	// nameless are the tokens of whom kcp says nowhere whose they are.
	nameless map[string]bool
	// holdRoot and hold, if set, are received from before each answer in the workspace root, and in
	// any other.
	holdRoot, hold chan struct{}
	asked          atomic.Int64
}

func (f *fakeWho) set(token string, user authenticationv1.UserInfo) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.users == nil {
		f.users = map[string]authenticationv1.UserInfo{}
	}
	f.users[token] = user
}

func (f *fakeWho) change(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// askedIn is how often it was asked in a workspace.
func (f *fakeWho) askedIn(workspace string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, w := range f.workspaces {
		if w == workspace {
			n++
		}
	}
	return n
}

// questions is how often kcp was asked anything about callers.
func (k *fakeKCP) questions() int64 { return k.gets.Load() + k.reviews.Load() + k.who.asked.Load() }

// serveWho answers a SelfSubjectReview as a shard does, and returns false for other requests. Who has
// a token with rights and no name of its own has that of the token. To the workspace root all have
// access whom kcp knows.
func (k *fakeKCP) serveWho(w http.ResponseWriter, r *http.Request) bool {
	if !strings.HasSuffix(r.URL.Path, "/selfsubjectreviews") {
		return false
	}
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	workspace, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/clusters/"), "/")
	k.who.asked.Add(1)
	k.who.mu.Lock()
	hold, nameless := k.who.hold, k.who.nameless[token]
	if workspace == "root" {
		hold = k.who.holdRoot
	}
	user, named := k.who.users[token]
	k.who.workspaces = append(k.who.workspaces, workspace)
	k.who.mu.Unlock()
	if hold != nil {
		<-hold
	}
	k.mu.Lock()
	down := k.down
	rights, known := k.rights[token]
	_, exists := k.clusters[workspace]
	only, local := k.who.only[token]
	k.mu.Unlock()
	if !named {
		user = authenticationv1.UserInfo{Username: "user-of-" + token}
	}
	switch {
	case down:
		w.WriteHeader(http.StatusInternalServerError)
	case !known || local && only != workspace:
		w.WriteHeader(http.StatusUnauthorized)
	case workspace != "root" && !exists:
		w.WriteHeader(http.StatusNotFound)
	case workspace != "root" && !rights["access"], nameless:
		w.WriteHeader(http.StatusForbidden)
	default:
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(authenticationv1.SelfSubjectReview{Status: authenticationv1.SelfSubjectReviewStatus{UserInfo: user}})
	}
	return true
}
