// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package objecttest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// serveWrite serves POST, PUT, PATCH and DELETE.
func (s *Server) serveWrite(rw http.ResponseWriter, c call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body := map[string]any{}
	if err := json.NewDecoder(c.Body).Decode(&body); err != nil && c.Method != http.MethodDelete {
		Refuse(rw, apierrors.NewBadRequest(err.Error()))
		return
	}
	key := types.NamespacedName{Namespace: c.namespace, Name: c.name}
	current := s.objects[c.kind.Resource][key]
	if c.Method != http.MethodPost && current == nil && !c.applies() {
		Refuse(rw, apierrors.NewNotFound(c.resource(), c.name))
		return
	}
	if c.Method == http.MethodDelete {
		s.serveDelete(rw, c, current, body)
		return
	}
	obj, refused := s.updated(c, current, &unstructured.Unstructured{Object: body})
	if refused != nil {
		Refuse(rw, refused)
		return
	}
	if current != nil && isSame(current, obj) {
		answer(rw, http.StatusOK, current)
		return
	}
	if c.URL.Query().Get("dryRun") == "" {
		s.store(c.kind.Resource, obj)
	}
	code := http.StatusOK
	if c.Method == http.MethodPost || current == nil {
		code = http.StatusCreated
	}
	answer(rw, code, obj)
}

// isSame reports whether a write changes nothing: then an object keeps its version.
func isSame(before, after *unstructured.Unstructured) bool {
	content := func(obj *unstructured.Unstructured) map[string]any {
		obj = obj.DeepCopy()
		obj.SetManagedFields(nil)
		obj.SetResourceVersion("")
		return obj.Object
	}
	return reflect.DeepEqual(content(before), content(after))
}

func (c call) applies() bool {
	return c.Method == http.MethodPatch && c.Header.Get("Content-Type") == string(types.ApplyPatchType)
}

// updated returns the object as a request would have it.
func (s *Server) updated(c call, current, body *unstructured.Unstructured) (*unstructured.Unstructured, *apierrors.StatusError) {
	obj := body
	switch {
	case c.Method == http.MethodPost:
		obj.SetNamespace(c.namespace)
		if s.objects[c.kind.Resource][types.NamespacedName{Namespace: c.namespace, Name: obj.GetName()}] != nil {
			return nil, apierrors.NewAlreadyExists(c.resource(), obj.GetName())
		}
		s.complete(obj)
		s.manage(c, obj, "Update")
		return obj, nil
	case c.Method == http.MethodPatch && current != nil:
		obj = &unstructured.Unstructured{Object: merged(current.DeepCopy().Object, body.Object)}
	case current == nil:
		obj.SetNamespace(c.namespace)
		s.complete(obj)
		s.manage(c, obj, "Apply")
		return obj, nil
	}
	if version := body.GetResourceVersion(); version != "" && version != current.GetResourceVersion() {
		return nil, apierrors.NewConflict(c.resource(), c.name, errors.New("the object has been modified; please apply your changes to the latest version and try again"))
	}
	if uid := body.GetUID(); uid != "" && uid != current.GetUID() {
		return nil, apierrors.NewConflict(c.resource(), c.name, fmt.Errorf("precondition failed: UID in precondition: %v, UID in object meta: %v", uid, current.GetUID()))
	}
	if c.Method == http.MethodPut {
		if body.GetResourceVersion() == "" {
			return nil, apierrors.NewInvalid(c.kind.GVK.GroupKind(), c.name, field.ErrorList{
				field.Invalid(field.NewPath("metadata", "resourceVersion"), 0, "must be specified for an update"),
			})
		}
		obj = replaced(current, body)
	}
	obj.SetUID(current.GetUID())
	obj.SetCreationTimestamp(current.GetCreationTimestamp())
	if !reflect.DeepEqual(obj.Object["spec"], current.Object["spec"]) {
		obj.SetGeneration(current.GetGeneration() + 1)
	}
	operation := "Update"
	if c.applies() {
		operation = "Apply"
	}
	s.manage(c, obj, operation)
	return obj, nil
}

// replaced is body with what a PUT keeps of an object: its status and the fields that the server sets.
func replaced(current, body *unstructured.Unstructured) *unstructured.Unstructured {
	obj := body.DeepCopy()
	obj.SetNamespace(current.GetNamespace())
	obj.SetGeneration(current.GetGeneration())
	obj.SetManagedFields(current.GetManagedFields())
	if status, ok := current.Object["status"]; ok {
		obj.Object["status"] = status
	} else {
		delete(obj.Object, "status")
	}
	return obj
}

// merged returns an object with a JSON merge patch (RFC 7386) applied.
func merged(object, patch map[string]any) map[string]any {
	out := maps.Clone(object)
	if out == nil {
		out = map[string]any{}
	}
	for key, value := range patch {
		inner, isObject := value.(map[string]any)
		switch {
		case value == nil:
			delete(out, key)
		case isObject:
			old, _ := out[key].(map[string]any)
			out[key] = merged(old, inner)
		default:
			out[key] = value
		}
	}
	return out
}

// manage notes who changed an object last. Unlike a real server it does not say which fields.
func (s *Server) manage(c call, obj *unstructured.Unstructured, operation string) {
	now := metav1.NewTime(s.Now())
	manager := c.URL.Query().Get("fieldManager")
	entries := obj.GetManagedFields()
	for i := range entries {
		if entries[i].Manager == manager {
			entries[i].Time = &now
			obj.SetManagedFields(entries)
			return
		}
	}
	obj.SetManagedFields(append(entries, metav1.ManagedFieldsEntry{
		Manager: manager, Operation: metav1.ManagedFieldsOperationType(operation), APIVersion: obj.GetAPIVersion(), Time: &now,
	}))
}

// serveDelete deletes an object under the preconditions of the request.
func (s *Server) serveDelete(rw http.ResponseWriter, c call, current *unstructured.Unstructured, body map[string]any) {
	uid, _, _ := unstructured.NestedString(body, "preconditions", "uid")
	version, _, _ := unstructured.NestedString(body, "preconditions", "resourceVersion")
	switch {
	case uid != "" && uid != string(current.GetUID()):
		Refuse(rw, apierrors.NewConflict(c.resource(), c.name, fmt.Errorf("the UID in the precondition (%s) does not match the UID in record (%s). The object might have been deleted and then recreated", uid, current.GetUID())))
		return
	case version != "" && version != current.GetResourceVersion():
		Refuse(rw, apierrors.NewConflict(c.resource(), c.name, fmt.Errorf("the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record (%s). The object might have been modified", version, current.GetResourceVersion())))
		return
	}
	dryRun, _, _ := unstructured.NestedStringSlice(body, "dryRun")
	switch {
	case len(dryRun) > 0:
	case len(current.GetFinalizers()) > 0:
		if current.GetDeletionTimestamp() == nil {
			gone := current.DeepCopy()
			now := metav1.NewTime(s.Now())
			gone.SetDeletionTimestamp(&now)
			s.store(c.kind.Resource, gone)
		}
	default:
		s.drop(c.kind.Resource, types.NamespacedName{Namespace: c.namespace, Name: c.name})
	}
	answer(rw, http.StatusOK, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess})
}
