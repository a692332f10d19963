// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package objecttest

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// call is a request for objects.
type call struct {
	*http.Request
	kind            Kind
	namespace, name string
}

// ServeHTTP implements http.Handler. Paths may begin with /clusters/NAME.
func (s *Server) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	s.note(r)
	if intercept := s.interceptor(); intercept != nil && intercept(rw, r) {
		return
	}
	path := r.URL.Path
	if rest, ok := strings.CutPrefix(path, "/clusters/"); ok {
		_, path, _ = strings.Cut(rest, "/")
		path = "/" + path
	}
	if s.serveDiscovery(rw, path) {
		return
	}
	if path == "/apis/authentication.k8s.io/v1/selfsubjectreviews" && r.Method == http.MethodPost {
		answer(rw, http.StatusCreated, authenticationv1.SelfSubjectReview{
			TypeMeta: metav1.TypeMeta{Kind: "SelfSubjectReview", APIVersion: "authentication.k8s.io/v1"},
			Status:   authenticationv1.SelfSubjectReviewStatus{UserInfo: authenticationv1.UserInfo{Username: s.User, Groups: []string{"system:authenticated"}}},
		})
		return
	}
	c, ok := s.route(r, strings.Split(strings.Trim(path, "/"), "/"))
	if !ok {
		rw.Header().Set("Content-Type", "text/plain; charset=utf-8")
		http.Error(rw, "404 page not found", http.StatusNotFound)
		return
	}
	switch {
	case r.Method == http.MethodGet && r.URL.Query().Get("watch") != "":
		s.serveWatch(rw, c)
	case r.Method == http.MethodGet && c.name == "":
		s.serveList(rw, c)
	case r.Method == http.MethodGet:
		s.serveGet(rw, c)
	default:
		s.serveWrite(rw, c)
	}
}

// route reads apis/GROUP/VERSION[/namespaces/NS]/RESOURCE[/NAME] or the same below api/v1.
func (s *Server) route(r *http.Request, segments []string) (call, bool) {
	var gv schema.GroupVersion
	switch {
	case len(segments) > 3 && segments[0] == "apis":
		gv, segments = schema.GroupVersion{Group: segments[1], Version: segments[2]}, segments[3:]
	case len(segments) > 2 && segments[0] == "api":
		gv, segments = schema.GroupVersion{Version: segments[1]}, segments[2:]
	default:
		return call{}, false
	}
	c := call{Request: r}
	if len(segments) > 2 && segments[0] == "namespaces" {
		c.namespace, segments = segments[1], segments[2:]
	}
	for _, k := range s.Kinds {
		if k.GVK.GroupVersion() == gv && k.Resource == segments[0] {
			c.kind = k
			if len(segments) > 1 {
				c.name = segments[1]
			}
			return c, true
		}
	}
	return call{}, false
}

// Describe sets OpenAPI while the server may be in use.
func (s *Server) Describe(openAPI map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.OpenAPI = openAPI
}

func (s *Server) description(path string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.OpenAPI[strings.TrimPrefix(path, "/openapi/v3/apis/")]
}

func (s *Server) serveDiscovery(rw http.ResponseWriter, path string) bool {
	description := s.description(path)
	switch {
	case description != "":
		rw.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(rw, description)
	case strings.HasPrefix(path, "/apis/") && strings.Count(path, "/") == 2:
		for _, group := range s.groups() {
			if group.Name == strings.TrimPrefix(path, "/apis/") {
				answer(rw, http.StatusOK, group)
				return true
			}
		}
		return false
	case strings.HasPrefix(path, "/apis/") && strings.Count(path, "/") == 3:
		list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: strings.TrimPrefix(path, "/apis/")}
		for _, k := range s.Kinds {
			if k.GVK.GroupVersion().String() == list.GroupVersion {
				r := metav1.APIResource{
					Name: k.Resource, Kind: k.GVK.Kind, SingularName: strings.ToLower(k.GVK.Kind), ShortNames: k.ShortNames, Namespaced: !k.Cluster,
					Verbs: metav1.Verbs{"create", "delete", "get", "list", "patch", "update", "watch"},
				}
				status := r
				status.Name += "/status"
				list.APIResources = append(list.APIResources, r, status)
			}
		}
		if len(list.APIResources) == 0 {
			return false
		}
		answer(rw, http.StatusOK, list)
	default:
		return false
	}
	return true
}

func (s *Server) groups() []metav1.APIGroup {
	var groups []metav1.APIGroup
	for _, k := range s.Kinds {
		version := metav1.GroupVersionForDiscovery{GroupVersion: k.GVK.GroupVersion().String(), Version: k.GVK.Version}
		groups = append(groups, metav1.APIGroup{
			TypeMeta: metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}, Name: k.GVK.Group,
			Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version,
		})
	}
	return groups
}

func (c call) resource() schema.GroupResource {
	return schema.GroupResource{Group: c.kind.GVK.Group, Resource: c.kind.Resource}
}

// selects returns what the request's selectors say of an object.
func (c call) selects() (func(*unstructured.Unstructured) bool, error) {
	by, err := labels.Parse(c.URL.Query().Get("labelSelector"))
	if err != nil {
		return nil, err
	}
	at, err := fields.ParseSelector(c.URL.Query().Get("fieldSelector"))
	if err != nil {
		return nil, err
	}
	return func(obj *unstructured.Unstructured) bool {
		if obj == nil {
			return false
		}
		about, _, _ := unstructured.NestedString(obj.Object, "involvedObject", "uid")
		return by.Matches(labels.Set(obj.GetLabels())) && at.Matches(fields.Set{
			"metadata.name": obj.GetName(), "metadata.namespace": obj.GetNamespace(), "involvedObject.uid": about,
		})
	}, nil
}

func (s *Server) serveGet(rw http.ResponseWriter, c call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	obj := s.objects[c.kind.Resource][types.NamespacedName{Namespace: c.namespace, Name: c.name}]
	if obj == nil {
		Refuse(rw, apierrors.NewNotFound(c.resource(), c.name))
		return
	}
	if c.asTable() {
		answer(rw, http.StatusOK, c.kind.table(obj.GetResourceVersion(), "", obj))
		return
	}
	answer(rw, http.StatusOK, obj)
}

func (s *Server) serveList(rw http.ResponseWriter, c call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	selects, err := c.selects()
	if err != nil {
		Refuse(rw, apierrors.NewBadRequest(err.Error()))
		return
	}
	limit, _ := strconv.Atoi(c.URL.Query().Get("limit"))
	after := ""
	version := s.version
	if token := c.URL.Query().Get("continue"); token != "" {
		text, rest, _ := strings.Cut(token, "|")
		version, _ = strconv.Atoi(text)
		if after = rest; version < s.oldest {
			Refuse(rw, apierrors.NewResourceExpired("the provided continue parameter is too old"))
			return
		}
	}
	var found []*unstructured.Unstructured
	next := ""
	all := s.sorted(c.kind.Resource, c.namespace)
	if c.URL.Query().Get("resourceVersionMatch") == string(metav1.ResourceVersionMatchExact) {
		if version, _ = strconv.Atoi(c.URL.Query().Get("resourceVersion")); version < s.oldest {
			Refuse(rw, apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d", version)))
			return
		}
		all = s.asOf(c.kind.Resource, c.namespace, version)
	}
	for _, obj := range all {
		key := obj.GetNamespace() + "/" + obj.GetName()
		if key <= after || !selects(obj) {
			continue
		}
		if limit > 0 && len(found) == limit {
			last := found[len(found)-1]
			next = fmt.Sprintf("%d|%s/%s", version, last.GetNamespace(), last.GetName())
			break
		}
		found = append(found, obj)
	}
	if c.asTable() {
		answer(rw, http.StatusOK, c.kind.table(strconv.Itoa(version), next, found...))
		return
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(c.kind.GVK.GroupVersion().WithKind(c.kind.GVK.Kind + "List"))
	list.SetResourceVersion(strconv.Itoa(version))
	list.SetContinue(next)
	for _, obj := range found {
		list.Items = append(list.Items, *obj)
	}
	answer(rw, http.StatusOK, list)
}

// asOf returns the objects as they were in a version that the history has.
func (s *Server) asOf(resource, namespace string, version int) []*unstructured.Unstructured {
	found := map[string]*unstructured.Unstructured{}
	for _, change := range s.history {
		if change.version > version || change.resource != resource || namespace != "" && namespace != change.object.GetNamespace() {
			continue
		}
		key := change.object.GetNamespace() + "/" + change.object.GetName()
		if delete(found, key); change.event != "DELETED" {
			found[key] = change.object
		}
	}
	return slices.SortedFunc(maps.Values(found), func(a, b *unstructured.Unstructured) int {
		return strings.Compare(a.GetNamespace()+"/"+a.GetName(), b.GetNamespace()+"/"+b.GetName())
	})
}

func (c call) asTable() bool { return strings.Contains(c.Header.Get("Accept"), "as=Table") }

// table is the table of some objects, which each row has as a whole.
func (k Kind) table(version, next string, objects ...*unstructured.Unstructured) metav1.Table {
	t := metav1.Table{TypeMeta: metav1.TypeMeta{Kind: "Table", APIVersion: "meta.k8s.io/v1"}}
	t.ResourceVersion, t.Continue = version, next
	t.ColumnDefinitions = []metav1.TableColumnDefinition{{Name: "Name", Type: "string", Format: "name"}}
	for _, c := range k.Columns {
		t.ColumnDefinitions = append(t.ColumnDefinitions, c.TableColumnDefinition)
	}
	t.Rows = []metav1.TableRow{}
	for _, obj := range objects {
		row := metav1.TableRow{Cells: []any{obj.GetName()}}
		for _, c := range k.Columns {
			row.Cells = append(row.Cells, c.Cell(obj))
		}
		row.Object.Object = obj
		t.Rows = append(t.Rows, row)
	}
	return t
}

// serveWatch sends changes from a version on, until the client goes or the watches are cut.
func (s *Server) serveWatch(rw http.ResponseWriter, c call) {
	selects, err := c.selects()
	if err != nil {
		Refuse(rw, apierrors.NewBadRequest(err.Error()))
		return
	}
	version, _ := strconv.Atoi(c.URL.Query().Get("resourceVersion"))
	rw.Header().Set("Content-Type", "application/json")
	flusher := http.NewResponseController(rw)
	out := json.NewEncoder(rw)
	_ = flusher.Flush()
	for {
		s.mu.Lock()
		changes, forgotten, changed, cut := s.since(c, version), version < s.oldest, s.changed, s.cut
		s.mu.Unlock()
		if forgotten {
			status := apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d", version)).ErrStatus
			status.Kind, status.APIVersion = "Status", "v1"
			_ = out.Encode(map[string]any{"type": "ERROR", "object": status}) //nolint:errchkjson // a client that is gone
			return
		}
		for _, change := range changes {
			version = change.version
			event := eventFor(change, selects)
			if event == "" {
				continue
			}
			var object any = change.object
			if c.asTable() {
				object = c.kind.table(change.object.GetResourceVersion(), "", change.object)
			}
			_ = out.Encode(map[string]any{"type": event, "object": object}) //nolint:errchkjson // as above
		}
		_ = flusher.Flush()
		select {
		case <-c.Context().Done():
			return
		case <-cut:
			return
		case <-changed:
		}
	}
}

func (s *Server) since(c call, version int) []change {
	var found []change
	for _, change := range s.history {
		if change.version > version && change.resource == c.kind.Resource && (c.namespace == "" || c.namespace == change.object.GetNamespace()) {
			found = append(found, change)
		}
	}
	return found
}

// eventFor is what a watch with a selector sees of a change: an object that does not match any more is DELETED.
func eventFor(c change, selects func(*unstructured.Unstructured) bool) string {
	before, now := selects(c.before), c.event != "DELETED" && selects(c.object)
	switch {
	case before && now:
		return "MODIFIED"
	case now:
		return "ADDED"
	case before:
		return "DELETED"
	}
	return ""
}
