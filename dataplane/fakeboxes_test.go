// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// fakeBoxes are Sandboxes as a kcp shard serves them to callers: created, read, listed by label and watched.
type fakeBoxes struct {
	mu      sync.Mutex
	objects map[string]*unstructured.Unstructured // by namespace and name
	version int
	// changed is closed at each change, and replaced.
	changed chan struct{}
	// tokens are those of the creations that were taken.
	tokens []string
	// refuse, if set, answers creations itself.
	refuse func(http.ResponseWriter)
	// watches counts watches that were begun.
	watches int
	// cut is how many watches are ended at once.
	cut int
}

// serveBoxes answers what is asked of Sandboxes.
func (k *fakeKCP) serveBoxes(w http.ResponseWriter, r *http.Request) bool {
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/clusters/"), "/")
	if len(parts) < 7 || parts[6] != "sandboxes" || r.Method == http.MethodPatch {
		return false
	}
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	verb := "get"
	switch {
	case r.Method == http.MethodPost:
		verb = "create"
	case r.URL.Query().Get("watch") != "":
		verb = "watch"
	case len(parts) == 7:
		verb = "list"
	}
	k.mu.Lock()
	rights, known := k.rights[token]
	may := rights["*"] || rights[verb+" sandboxes"]
	k.mu.Unlock()
	switch {
	case !known:
		w.WriteHeader(http.StatusUnauthorized)
	case !may:
		say(w, http.StatusForbidden, fmt.Sprintf(`sandboxes.sandbar.dev is forbidden: User "x" cannot %s resource "sandboxes"`, verb))
	case verb == "create":
		k.boxes.create(w, r, parts[5], token)
	case verb == "watch":
		k.boxes.watch(w, r, parts[5], k.closing)
	case verb == "list":
		k.boxes.list(w, r, parts[5])
	default:
		k.boxes.get(w, parts[5]+"/"+parts[7])
	}
	return true
}

// say answers with a metav1.Status.
func say(w http.ResponseWriter, code int, message string) {
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Code: int32(code), Message: message})
}

func (b *fakeBoxes) put(obj *unstructured.Unstructured) {
	if b.objects == nil {
		b.objects = map[string]*unstructured.Unstructured{}
	}
	b.version++
	obj.SetResourceVersion(strconv.Itoa(b.version))
	b.objects[obj.GetNamespace()+"/"+obj.GetName()] = obj
	b.stir()
}

func (b *fakeBoxes) stir() {
	if b.changed != nil {
		close(b.changed)
	}
	b.changed = make(chan struct{})
}

func (b *fakeBoxes) create(w http.ResponseWriter, r *http.Request, namespace, token string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.refuse != nil {
		b.refuse(w)
		return
	}
	obj := &unstructured.Unstructured{}
	if err := json.NewDecoder(r.Body).Decode(&obj.Object); err != nil || obj.GetNamespace() != namespace {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if obj.GetName() == "" {
		obj.SetName(fmt.Sprintf("%s%05d", obj.GetGenerateName(), b.version))
	}
	if b.objects[namespace+"/"+obj.GetName()] != nil {
		say(w, http.StatusConflict, "already exists")
		return
	}
	obj.SetUID(types.UID(fmt.Sprint("uid-of-", obj.GetName(), "-", b.version)))
	obj.SetCreationTimestamp(metav1.NewTime(time.Now().Truncate(time.Second)))
	b.put(obj)
	b.tokens = append(b.tokens, token)
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(obj)
}

func (b *fakeBoxes) get(w http.ResponseWriter, key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	obj := b.objects[key]
	if obj == nil {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	_ = json.NewEncoder(w).Encode(obj)
}

func (b *fakeBoxes) list(w http.ResponseWriter, r *http.Request, namespace string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	selector, err := labels.Parse(r.URL.Query().Get("labelSelector"))
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	items := []any{}
	for _, obj := range b.objects {
		if obj.GetNamespace() == namespace && selector.Matches(labels.Set(obj.GetLabels())) {
			items = append(items, map[string]any{"metadata": obj.Object["metadata"]})
		}
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"kind": "PartialObjectMetadataList", "items": items})
}

// watch shows the changes of one object after a version.
func (b *fakeBoxes) watch(w http.ResponseWriter, r *http.Request, namespace string, closing <-chan struct{}) {
	name, _ := strings.CutPrefix(r.URL.Query().Get("fieldSelector"), "metadata.name=")
	seen, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	w.WriteHeader(http.StatusOK)
	flush := func() { _ = http.NewResponseController(w).Flush() }
	flush()
	b.mu.Lock()
	b.watches++
	cut := b.cut > 0
	if cut {
		b.cut--
	}
	b.mu.Unlock()
	for was := ""; !cut; {
		b.mu.Lock()
		obj, changed := b.objects[namespace+"/"+name], b.changed
		var event map[string]any
		switch {
		case obj == nil:
			event = map[string]any{"type": "DELETED", "object": map[string]any{}}
		case was != obj.GetResourceVersion() && versionOf(obj) > seen:
			event, was = map[string]any{"type": "MODIFIED", "object": maps.Clone(obj.Object)}, obj.GetResourceVersion()
		}
		if event != nil {
			_ = json.NewEncoder(w).Encode(event)
			flush()
		}
		b.mu.Unlock()
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		case <-closing:
			return
		}
	}
}

func versionOf(obj *unstructured.Unstructured) int {
	version, _ := strconv.Atoi(obj.GetResourceVersion())
	return version
}

// report has a Sandbox report a status.
func (b *fakeBoxes) report(key string, status map[string]any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	obj := b.objects[key].DeepCopy()
	obj.Object["status"] = status
	b.put(obj)
}

// remove deletes a Sandbox.
func (b *fakeBoxes) remove(key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.objects, key)
	b.stir()
}

// change changes a Sandbox as nobody but kcp could.
func (b *fakeBoxes) change(key string, change func(*unstructured.Unstructured)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	obj := b.objects[key].DeepCopy()
	change(obj)
	b.put(obj)
}

// names are those of the Sandboxes.
func (b *fakeBoxes) names() (names []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key := range b.objects {
		names = append(names, key)
	}
	return names
}
