// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

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
	// hold, if set, is received from before each answer.
	hold  chan struct{}
	asked atomic.Int64
}

func (f *fakeWho) set(token string, user authenticationv1.UserInfo) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.users == nil {
		f.users = map[string]authenticationv1.UserInfo{}
	}
	f.users[token] = user
}

// serve answers a SelfSubjectReview; it returns false for other requests.
func (f *fakeWho) serve(w http.ResponseWriter, r *http.Request) bool {
	if !strings.HasSuffix(r.URL.Path, "/selfsubjectreviews") {
		return false
	}
	f.asked.Add(1)
	f.mu.Lock()
	hold := f.hold
	user, known := f.users[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
	f.mu.Unlock()
	if hold != nil {
		<-hold
	}
	if !known {
		w.WriteHeader(http.StatusForbidden)
		return true
	}
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(authenticationv1.SelfSubjectReview{Status: authenticationv1.SelfSubjectReviewStatus{UserInfo: user}})
	return true
}
