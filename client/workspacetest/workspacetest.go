// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package workspacetest stands for a workspace of kcp in tests of the commands that lead to a bound one: who the caller is,
// APIBindings, and the kinds that they bring. It answers as kcp does; the end-to-end tests have the real one.
package workspacetest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Workspace is a workspace behind any path below /clusters/. Set its fields before the first request.
type Workspace struct {
	// Token is the bearer token of the user alice. An empty one is not compared.
	Token string
	// NotAllowed are the rights that access reviews deny, for example "create sandboxrunners/exec".
	NotAllowed []string
	// Denied are paths behind the workspace's, with their method ("POST /apis/…"), that alice may not use.
	Denied map[string]bool
	// Exports are the paths and names of those that alice may bind, for example root:sandbar:sandbar.dev.
	Exports []string
	// Asks are the claims of the exports.
	Asks []any
	// Pending is how many times a binding is read before it is bound, and negative for one that never is.
	Pending int
	// Conditions are those of a binding that is pending.
	Conditions []any
	// Kinds are those that a binding brings, by resource.
	Kinds map[string]string
	// Annotations are those of bindings.
	Annotations map[string]any
	// Before sees each request, and answers it if it returns true.
	Before func(http.ResponseWriter, *http.Request) bool

	mu       sync.Mutex
	bindings map[string]map[string]any
	reads    int
	requests []string
}

const bindingsPath = "/apis/apis.kcp.io/v1alpha2/apibindings"

// Has puts an APIBinding into the workspace that is bound already.
func (w *Workspace) Has(name, path, export string, claims ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reads = w.Pending + 2
	w.put(map[string]any{
		"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding", "metadata": map[string]any{"name": name, "resourceVersion": "1"},
		"spec": map[string]any{"reference": map[string]any{"export": map[string]any{"path": path, "name": export}}, "permissionClaims": claims},
	})
}

// Binding returns the APIBinding of a name as it is stored; nil if there is none.
func (w *Workspace) Binding(name string) map[string]any {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.bindings[name]
}

// Requests returns the methods and paths of the requests so far.
func (w *Workspace) Requests() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.requests)
}

// Changes returns those of the requests that change something.
func (w *Workspace) Changes() []string {
	return slices.DeleteFunc(w.Requests(), func(r string) bool {
		return strings.HasPrefix(r, "GET ") || strings.Contains(r, "reviews")
	})
}

// put stores a binding. The caller holds the lock.
func (w *Workspace) put(binding map[string]any) {
	if w.bindings == nil {
		w.bindings = map[string]map[string]any{}
	}
	metadata, _ := binding["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	if w.Annotations != nil {
		metadata["annotations"] = w.Annotations
	}
	w.bindings[name] = binding
}

// ServeHTTP implements http.Handler.
func (w *Workspace) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	if rest, ok := strings.CutPrefix(path, "/clusters/"); ok {
		if _, rest, ok = strings.Cut(rest, "/"); ok {
			path = "/" + rest
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.requests = append(w.requests, r.Method+" "+path)
	rw.Header().Set("Content-Type", "application/json")
	switch {
	case w.Before != nil && w.Before(rw, r):
	case path == "/version" && r.Header.Get("Authorization") != "":
		refuse(rw, http.StatusBadRequest, metav1.StatusReasonBadRequest, "the credential was sent to a path that needs none")
	case path != "/version" && w.Token != "" && r.Header.Get("Authorization") != "Bearer "+w.Token:
		refuse(rw, http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "Unauthorized")
	case w.Denied[r.Method+" "+path]:
		refuse(rw, http.StatusForbidden, metav1.StatusReasonForbidden, fmt.Sprintf("User %q cannot %s path %q", "alice", strings.ToLower(r.Method), path))
	case path == "/apis/authentication.k8s.io/v1/selfsubjectreviews":
		send(rw, http.StatusCreated, map[string]any{
			"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview",
			"status": map[string]any{"userInfo": map[string]any{"username": "alice", "groups": []any{"team-a", "system:authenticated"}}},
		})
	case path == "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews":
		w.review(rw, r)
	case path == "/version":
		send(rw, http.StatusOK, map[string]any{"gitVersion": "v1"})
	case path == "/api/v1/namespaces/default":
		send(rw, http.StatusOK, map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "default"}})
	case strings.HasPrefix(path, "/api/v1/namespaces/"):
		refuse(rw, http.StatusNotFound, metav1.StatusReasonNotFound, "namespaces not found")
	case strings.HasPrefix(path, bindingsPath):
		w.serveBindings(rw, r, strings.Trim(strings.TrimPrefix(path, bindingsPath), "/"))
	default:
		w.serveKinds(rw, path)
	}
}

func (w *Workspace) serveBindings(rw http.ResponseWriter, r *http.Request, name string) {
	var sent map[string]any
	if r.Method == http.MethodPost || r.Method == http.MethodPut {
		_ = json.NewDecoder(r.Body).Decode(&sent)
	}
	have, exists := w.bindings[name]
	switch {
	case r.Method == http.MethodPost:
		w.create(rw, sent)
	case name == "":
		items := []any{}
		for _, n := range slices.Sorted(maps.Keys(w.bindings)) {
			w.status(w.bindings[n])
			items = append(items, w.bindings[n])
		}
		send(rw, http.StatusOK, map[string]any{"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBindingList", "items": items})
	case !exists:
		refuse(rw, http.StatusNotFound, metav1.StatusReasonNotFound, fmt.Sprintf("apibindings.apis.kcp.io %q not found", name))
	case r.Method == http.MethodPut:
		if versionOf(sent) != versionOf(have) {
			refuse(rw, http.StatusConflict, metav1.StatusReasonConflict, "the object has been modified; please apply your changes to the latest version and try again")
			return
		}
		w.put(sent)
		send(rw, http.StatusOK, sent)
	default:
		w.reads++
		w.status(have)
		send(rw, http.StatusOK, have)
	}
}

func (w *Workspace) create(rw http.ResponseWriter, sent map[string]any) {
	spec, _ := sent["spec"].(map[string]any)
	reference, _ := spec["reference"].(map[string]any)
	export, _ := reference["export"].(map[string]any)
	full := fmt.Sprintf("%v:%v", export["path"], export["name"])
	metadata, _ := sent["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	switch {
	case !slices.Contains(w.Exports, full):
		refuse(rw, http.StatusForbidden, metav1.StatusReasonForbidden, "apibindings.apis.kcp.io \""+name+"\" is forbidden: unable to create APIBinding: no permission to bind to export "+full)
	case w.bindings[name] != nil:
		refuse(rw, http.StatusConflict, metav1.StatusReasonAlreadyExists, "apibindings.apis.kcp.io \""+name+"\" already exists")
	default:
		metadata["resourceVersion"] = "1"
		w.put(sent)
		send(rw, http.StatusCreated, sent)
	}
}

// status writes the status of a binding as far as kcp is by now.
func (w *Workspace) status(binding map[string]any) {
	if !w.bound() {
		binding["status"] = map[string]any{"phase": "Binding", "conditions": w.Conditions}
		return
	}
	resources := []any{}
	for _, r := range slices.Sorted(maps.Keys(w.Kinds)) {
		resources = append(resources, map[string]any{"group": "sandbar.dev", "resource": r})
	}
	conditions := append([]any{}, w.Conditions...)
	binding["status"] = map[string]any{
		"phase": "Bound", "boundResources": resources, "exportPermissionClaims": w.Asks,
		"conditions": append(conditions, map[string]any{"type": "InitialBindingCompleted", "status": "True"}),
	}
}

func (w *Workspace) bound() bool { return w.Pending >= 0 && w.reads > w.Pending }

// serveKinds lists what the bindings bring. The list comes one read of the binding before the objects do.
func (w *Workspace) serveKinds(rw http.ResponseWriter, path string) {
	const group = "/apis/sandbar.dev"
	listed := len(w.bindings) > 0 && w.bound()
	resource := path[strings.LastIndex(path, "/")+1:]
	switch {
	case listed && path == group:
		send(rw, http.StatusOK, map[string]any{
			"kind": "APIGroup", "apiVersion": "v1", "name": "sandbar.dev",
			"versions": []any{map[string]any{"groupVersion": "sandbar.dev/v1alpha1", "version": "v1alpha1"}},
		})
	case listed && path == group+"/v1alpha1":
		list := []any{}
		for _, r := range slices.Sorted(maps.Keys(w.Kinds)) {
			list = append(list, map[string]any{"name": r, "kind": w.Kinds[r], "namespaced": true, "verbs": []any{"get", "list"}})
		}
		send(rw, http.StatusOK, map[string]any{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "sandbar.dev/v1alpha1", "resources": list})
	case listed && w.reads > w.Pending+1 && w.Kinds[resource] != "":
		send(rw, http.StatusOK, map[string]any{"apiVersion": "sandbar.dev/v1alpha1", "kind": w.Kinds[resource] + "List", "items": []any{}})
	default:
		rw.Header().Set("Content-Type", "text/plain; charset=utf-8")
		http.Error(rw, "404 page not found", http.StatusNotFound)
	}
}

// review answers whether alice has a right.
func (w *Workspace) review(rw http.ResponseWriter, r *http.Request) {
	var asked authorizationv1.SelfSubjectAccessReview
	_ = json.NewDecoder(r.Body).Decode(&asked)
	what := asked.Spec.ResourceAttributes
	right := what.Verb + " " + what.Resource
	if what.Subresource != "" {
		right += "/" + what.Subresource
	}
	send(rw, http.StatusCreated, map[string]any{
		"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
		"status": map[string]any{"allowed": !slices.Contains(w.NotAllowed, right)},
	})
}

func versionOf(obj map[string]any) any {
	metadata, _ := obj["metadata"].(map[string]any)
	return metadata["resourceVersion"]
}

func send(rw http.ResponseWriter, code int, obj map[string]any) {
	rw.WriteHeader(code)
	_ = json.NewEncoder(rw).Encode(obj) //nolint:errchkjson // maps of JSON's own types
}

// refuse answers with a Status, as API servers do.
func refuse(rw http.ResponseWriter, code int, reason metav1.StatusReason, message string) {
	send(rw, code, map[string]any{
		"kind": "Status", "apiVersion": "v1", "status": metav1.StatusFailure, "reason": reason, "message": message, "code": code,
	})
}
