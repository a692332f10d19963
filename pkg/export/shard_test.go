// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package export

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
)

// twoWorkspaces serves things in the workspaces a and b, one per page. The list of all workspaces is read
// through a former schema: it lacks the color.
func twoWorkspaces(w http.ResponseWriter, r *http.Request) {
	items, next := []string{}, ""
	add := func(cluster, fields string) {
		items = append(items, fmt.Sprintf(`{"apiVersion":"sandbar.dev/v1alpha1","kind":"Thing","metadata":{"name":"web",
			"annotations":{"kcp.io/cluster":%q}},"spec":{%s}}`, cluster, fields))
	}
	switch cluster := strings.Split(r.URL.Path, "/")[2]; {
	case cluster != EveryWorkspace:
		add(cluster, `"color":"red"`)
	case r.URL.Query().Get("continue") == "":
		add("a", "")
		next = "b"
	default:
		add("b", "")
	}
	left := ""
	if next != "" {
		left = `,"remainingItemCount":1`
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{"apiVersion":"sandbar.dev/v1alpha1","kind":"ThingList","metadata":{"continue":%q%s},"items":[%s]}`, next, left, strings.Join(items, ","))
}

func newTestShard(t *testing.T, handler http.HandlerFunc) *Shard {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	shard, err := NewShard(&rest.Config{}, server.URL+"/")
	if err != nil {
		t.Fatal(err)
	}
	return shard
}

// A list of all workspaces drops the fields that the schema of one of them lacks; who asks whether a field
// is set would hear that it is not.
func TestObjectsAreReadAsTheirTenantsReadThem(t *testing.T) {
	var got []string
	err := newTestShard(t, twoWorkspaces).EachAsItsTenant(t.Context(), thing.GVR(), func(obj *unstructured.Unstructured) {
		color, _, _ := unstructured.NestedString(obj.Object, "spec", "color")
		got = append(got, obj.GetAnnotations()["kcp.io/cluster"]+" "+color)
	})
	if diff := cmp.Diff([]string{"a red", "b red"}, got); err != nil || diff != "" {
		t.Errorf("error %v (-want +got):\n%s", err, diff)
	}
}

func TestObjectsOfAllPagesAreCounted(t *testing.T) {
	if n, err := newTestShard(t, twoWorkspaces).Count(t.Context(), thing.GVR()); err != nil || n != 2 {
		t.Errorf("%d, error %v", n, err)
	}
}

// Right after a kind's export kcp answers 404: that is no empty list, or a Template with instances would go.
func TestAListThatCannotBeHadIsAnError(t *testing.T) {
	shard := newTestShard(t, http.NotFound)
	if _, err := shard.Count(t.Context(), thing.GVR()); err == nil {
		t.Error("counted")
	}
	if err := shard.EachAsItsTenant(t.Context(), thing.GVR(), func(*unstructured.Unstructured) {}); err == nil {
		t.Error("listed")
	}
}
