// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package export

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// answering is a shard that answers writes, and lists with a selector, with this code, and watches nothing.
func answering(t *testing.T, code int) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		reply := func(code int, body any) {
			w.WriteHeader(code)
			if err := json.NewEncoder(w).Encode(body); err != nil {
				t.Error(err)
			}
		}
		selected := strings.Contains(r.URL.RawQuery, "labelSelector=mine")
		switch {
		case r.Method == http.MethodPost && code == http.StatusOK:
			var obj map[string]any
			if err := json.NewDecoder(r.Body).Decode(&obj); err != nil {
				t.Error(err)
			}
			if r.URL.Query().Get("fieldValidation") != "Strict" {
				t.Errorf("the query is %s", r.URL.RawQuery)
			}
			reply(http.StatusCreated, obj)
		case selected && code == http.StatusOK:
			reply(code, map[string]any{"apiVersion": "sandbar.dev/v1alpha1", "kind": "ThingList", "items": []any{
				map[string]any{"apiVersion": "sandbar.dev/v1alpha1", "kind": "Thing", "metadata": map[string]any{"name": "web"}},
			}})
		case code == http.StatusConflict && r.Method == http.MethodPost:
			reply(code, apierrors.NewAlreadyExists(schema.GroupResource{Resource: "things"}, "web").Status())
		default:
			reply(http.StatusForbidden, apierrors.NewForbidden(schema.GroupResource{Resource: "things"}, "web", nil).Status())
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestAnObjectIsCreatedAndListedOnTheShardOfItsWorkspace(t *testing.T) {
	const ok, forbidden, exists = http.StatusOK, http.StatusForbidden, http.StatusConflict
	for name, test := range map[string]struct {
		answers []int
		refused func(error) bool // of the creation; nil: it is made
		listed  int
	}{
		"the only shard":                 {answers: []int{ok}, listed: 1},
		"the other shard":                {answers: []int{forbidden, ok}, listed: 1},
		"no shard has to do with it":     {answers: []int{forbidden, forbidden}, refused: apierrors.IsForbidden},
		"the other shard has it already": {answers: []int{forbidden, exists}, refused: apierrors.IsAlreadyExists},
	} {
		t.Run(name, func(t *testing.T) {
			objects := newTestObjects()
			for _, answer := range test.answers {
				addShard(t, objects, answering(t, answer))
			}
			obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "sandbar.dev/v1alpha1", "kind": "Thing"}}
			obj.SetName(web.Name)
			err := objects.Create(t.Context(), web, obj)
			if test.refused == nil && err != nil || test.refused != nil && !test.refused(err) {
				t.Errorf("creating: %v", err)
			}
			list, err := objects.List(t.Context(), web.Cluster, web.Namespace, "mine")
			if len(list) != test.listed || (err == nil) != (test.listed > 0) {
				t.Errorf("listing: %v, %v", list, err)
			}
		})
	}
}
