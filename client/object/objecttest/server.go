// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package objecttest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Kind is a kind that a workspace serves.
type Kind struct {
	GVK        schema.GroupVersionKind
	Resource   string
	ShortNames []string
	// Cluster reports whether its objects are in no namespace.
	Cluster bool
	// Columns are those of its tables, after the name.
	Columns []Column
}

// Column is a column of a table.
type Column struct {
	metav1.TableColumnDefinition
	// Cell is what an object has in the column.
	Cell func(*unstructured.Unstructured) any
}

// Server is a workspace. Its fields are set before the first request.
type Server struct {
	Kinds []Kind
	// Now is the server's clock.
	Now func() time.Time
	// OpenAPI has the documents at /openapi/v3/apis/GROUP/VERSION, by GROUP/VERSION.
	OpenAPI map[string]string
	// User is the name that the workspace knows the caller by.
	User string

	mu        sync.Mutex
	intercept func(http.ResponseWriter, *http.Request) bool
	version   int
	objects   map[string]map[types.NamespacedName]*unstructured.Unstructured // by resource
	history   []change
	oldest    int // changes up to this version are forgotten
	changed   chan struct{}
	cut       chan struct{}
	requests  []string
}

// Intercept has answer asked first from now on: it answers the requests that it returns true for. With nil none is.
func (s *Server) Intercept(answer func(http.ResponseWriter, *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.intercept = answer
}

func (s *Server) interceptor() func(http.ResponseWriter, *http.Request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.intercept
}

// change is one entry of the history that watches read.
type change struct {
	version  int
	resource string
	event    string
	object   *unstructured.Unstructured
	// before is the object before the change: a watch with a selector needs both. Nil for a new object.
	before *unstructured.Unstructured
}

// New returns a workspace that serves some kinds.
func New(kinds ...Kind) *Server {
	return &Server{
		Kinds: kinds, Now: time.Now, User: "alice", version: 100,
		objects: map[string]map[types.NamespacedName]*unstructured.Unstructured{},
		changed: make(chan struct{}), cut: make(chan struct{}),
	}
}

// Requests returns the requests so far, each as "METHOD PATH?QUERY".
func (s *Server) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Forget makes the server forget the changes so far, as etcd does when it is compacted: a watch or a page from an
// older version is refused with 410.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.history, s.oldest = nil, s.version
}

// CutWatches ends all watches.
func (s *Server) CutWatches() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.cut)
	s.cut = make(chan struct{})
}

// Put stores an object as it is, with a new version and with the metadata that it lacks. It is the same object as one
// that has its name already.
func (s *Server) Put(resource string, object map[string]any) *unstructured.Unstructured {
	s.mu.Lock()
	defer s.mu.Unlock()
	obj := (&unstructured.Unstructured{Object: object}).DeepCopy()
	if obj.GetNamespace() == "" && !s.kind(resource).Cluster {
		obj.SetNamespace("default")
	}
	if before := s.objects[resource][types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}]; before != nil && obj.GetUID() == "" {
		obj.SetUID(before.GetUID())
		obj.SetCreationTimestamp(before.GetCreationTimestamp())
	}
	s.complete(obj)
	s.store(resource, obj)
	return obj.DeepCopy()
}

// Remove deletes an object.
func (s *Server) Remove(resource, namespace, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(resource, types.NamespacedName{Namespace: namespace, Name: name})
}

// Object returns an object, or nil.
func (s *Server) Object(resource, namespace, name string) *unstructured.Unstructured {
	s.mu.Lock()
	defer s.mu.Unlock()
	if obj := s.objects[resource][types.NamespacedName{Namespace: namespace, Name: name}]; obj != nil {
		return obj.DeepCopy()
	}
	return nil
}

func (s *Server) kind(resource string) Kind {
	for _, k := range s.Kinds {
		if k.Resource == resource {
			return k
		}
	}
	return Kind{}
}

// complete sets what a server sets of a new object.
func (s *Server) complete(obj *unstructured.Unstructured) {
	if obj.GetUID() == "" {
		obj.SetUID(types.UID(fmt.Sprintf("uid-of-%s-%d", obj.GetName(), s.version+1)))
	}
	if created := obj.GetCreationTimestamp(); created.IsZero() {
		obj.SetCreationTimestamp(metav1.NewTime(s.Now()))
	}
	if obj.GetGeneration() == 0 {
		obj.SetGeneration(1)
	}
}

// store writes an object and tells the watches.
func (s *Server) store(resource string, obj *unstructured.Unstructured) {
	s.version++
	obj.SetResourceVersion(strconv.Itoa(s.version))
	key := types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
	if s.objects[resource] == nil {
		s.objects[resource] = map[types.NamespacedName]*unstructured.Unstructured{}
	}
	event, before := "MODIFIED", s.objects[resource][key]
	if before == nil {
		event = "ADDED"
	}
	s.objects[resource][key] = obj
	s.record(change{s.version, resource, event, obj.DeepCopy(), before})
}

func (s *Server) drop(resource string, key types.NamespacedName) {
	obj := s.objects[resource][key]
	if obj == nil {
		return
	}
	delete(s.objects[resource], key)
	s.version++
	last := obj.DeepCopy()
	last.SetResourceVersion(strconv.Itoa(s.version))
	s.record(change{s.version, resource, "DELETED", last, obj})
}

func (s *Server) record(c change) {
	s.history = append(s.history, c)
	close(s.changed)
	s.changed = make(chan struct{})
}

// sorted returns the objects of a resource in the order of their names.
func (s *Server) sorted(resource, namespace string) []*unstructured.Unstructured {
	var found []*unstructured.Unstructured
	keys := slices.SortedFunc(maps.Keys(s.objects[resource]), func(a, b types.NamespacedName) int {
		return strings.Compare(a.String(), b.String())
	})
	for _, key := range keys {
		if namespace == "" || key.Namespace == namespace {
			found = append(found, s.objects[resource][key].DeepCopy())
		}
	}
	return found
}

func (s *Server) note(r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := r.Method + " " + r.URL.Path
	if r.URL.RawQuery != "" {
		text += "?" + r.URL.RawQuery
	}
	s.requests = append(s.requests, text)
}

func answer(rw http.ResponseWriter, code int, body any) {
	rw.Header().Set("Content-Type", "application/json")
	rw.WriteHeader(code)
	_ = json.NewEncoder(rw).Encode(body) //nolint:errchkjson // a client that is gone
}

// Refuse answers with an error of the Kubernetes API.
func Refuse(rw http.ResponseWriter, err *apierrors.StatusError) {
	status := err.ErrStatus
	status.Kind, status.APIVersion = "Status", "v1"
	answer(rw, int(status.Code), status)
}
