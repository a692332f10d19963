// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/sandbar-dev/sandbar/apis/intercept"
)

// oneConfigMap is an API server that grants what a Role with resourceNames grants: one ConfigMap by its name.
type oneConfigMap struct {
	t       *testing.T
	mu      sync.Mutex
	version int
	data    map[string]string // nil: it is not there
	events  chan map[string]any
	asked   []string
	down    bool
}

func (s *oneConfigMap) object() map[string]any {
	return map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "data": s.data,
		"metadata": map[string]any{"name": intercept.ConfigMap, "namespace": "demo", "resourceVersion": strconv.Itoa(s.version)},
	}
}

func (s *oneConfigMap) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	query := r.URL.Query()
	if s.down || r.URL.Path != "/api/v1/namespaces/demo/configmaps" || query.Get("fieldSelector") != metav1.ObjectNameField+"="+intercept.ConfigMap {
		s.asked = append(s.asked, r.URL.String())
		http.Error(w, "forbidden", http.StatusForbidden)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	encoder := json.NewEncoder(w)
	if query.Get("watch") == "" {
		items := []any{}
		if s.data != nil {
			items = append(items, s.object())
		}
		_ = encoder.Encode(map[string]any{"apiVersion": "v1", "kind": "ConfigMapList", "metadata": map[string]any{"resourceVersion": strconv.Itoa(s.version)}, "items": items})
		return
	}
	if query.Get("sendInitialEvents") == "true" { // as an API server without streamed lists
		w.WriteHeader(http.StatusUnprocessableEntity)
		_ = encoder.Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Reason: metav1.StatusReasonInvalid, Code: 422})
		return
	}
	_ = http.NewResponseController(w).Flush()
	s.mu.Unlock()
	defer s.mu.Lock()
	for {
		select {
		case event, ok := <-s.events:
			if !ok {
				return
			}
			_ = encoder.Encode(event)
			_ = http.NewResponseController(w).Flush()
		case <-r.Context().Done():
			return
		}
	}
}

// change changes the ConfigMap and tells the watch.
func (s *oneConfigMap) change(kind string, data map[string]string) {
	s.mu.Lock()
	s.version++
	s.data = data
	event := map[string]any{"type": kind, "object": s.object()}
	s.mu.Unlock()
	s.events <- event
}

func TestTheDocumentIsReadFromOneConfigMap(t *testing.T) {
	server := &oneConfigMap{t: t, version: 1, events: make(chan map[string]any), data: map[string]string{"other.json": "x"}}
	api := httptest.NewServer(server)
	defer api.Close()
	documents, err := InConfigMap(&rest.Config{Host: api.URL}, "demo", service)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	applied, ended := make(chan string, 8), make(chan error, 1)
	go func() {
		ended <- documents.Watch(ctx, func(document []byte) {
			if document == nil {
				applied <- "none"
				return
			}
			applied <- string(document)
		})
	}()
	want := func(document string) {
		t.Helper()
		if got := <-applied; got != document {
			t.Errorf("applied %q, want %q", got, document)
		}
	}
	want("none")
	key := intercept.Key(service)
	server.change("MODIFIED", map[string]string{key: "1"})
	want("1")
	server.change("MODIFIED", map[string]string{key: "1", "other.json": "y"}) // another Service's: nothing changes here
	server.change("MODIFIED", map[string]string{key: "2"})
	want("2")
	server.change("MODIFIED", map[string]string{"other.json": "y"})
	want("none")
	server.change("DELETED", nil)
	want("none")
	server.change("ADDED", map[string]string{key: "3"})
	want("3")
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("ended with %v", err)
	}
	server.mu.Lock()
	defer server.mu.Unlock()
	if len(server.asked) > 0 {
		t.Errorf("the Role does not grant %q", server.asked)
	}
}

// While the API server is away, and when it comes back with nothing new, what is there stays.
func TestTheDocumentStaysWhileTheAPIServerIsAway(t *testing.T) {
	server := &oneConfigMap{t: t, version: 1, events: make(chan map[string]any), data: map[string]string{intercept.Key(service): "1"}}
	api := httptest.NewServer(server)
	defer api.Close()
	documents, err := InConfigMap(&rest.Config{Host: api.URL}, "demo", service)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	applied, ended := make(chan string, 8), make(chan error, 1)
	go func() { ended <- documents.Watch(ctx, func(document []byte) { applied <- string(document) }) }()
	if got := <-applied; got != "1" {
		t.Fatalf("applied %q", got)
	}
	server.mu.Lock()
	server.down = true
	server.mu.Unlock()
	api.CloseClientConnections()
	eventually(t, "the proxy has asked in vain", func() bool {
		server.mu.Lock()
		defer server.mu.Unlock()
		return len(server.asked) > 0
	})
	server.mu.Lock()
	server.down = false
	server.version++
	server.data = map[string]string{intercept.Key(service): "2"}
	server.mu.Unlock()
	if got := <-applied; got != "2" {
		t.Errorf("after the API server is back %q is applied, want 2", got)
	}
	cancel()
	<-ended
}
