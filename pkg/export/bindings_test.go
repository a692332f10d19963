// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package export

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

var reviews = Claim{Group: "authorization.k8s.io", Resource: "subjectaccessreviews", Verb: "create"}

func TestBindingsFollowWhatTheVirtualWorkspaceShows(t *testing.T) {
	b := newBindingIndex("sandbar.dev", reviews)
	var told []string
	b.changed = func(cluster string) { told = append(told, cluster) }
	one, two := endpointStore{b, "https://one"}, endpointStore{b, "https://two"}
	going := func(obj *unstructured.Unstructured) *unstructured.Unstructured {
		obj.SetDeletionTimestamp(&metav1.Time{Time: time.Unix(1, 0)})
		return obj
	}
	object := func(cluster, path, phase, state string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"name": "sandbar.dev", "annotations": map[string]any{"kcp.io/cluster": cluster, "kcp.io/path": path}},
			"spec": map[string]any{
				"reference": map[string]any{"export": map[string]any{"name": "sandbar.dev"}},
				"permissionClaims": []any{map[string]any{
					"group": "authorization.k8s.io", "resource": "subjectaccessreviews", "verbs": []any{"create"}, "state": state,
				}},
			},
			"status": map[string]any{"phase": phase},
		}}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		name string
		do   func() error
		told string
		// of root:a: the cluster, and whether the claim is accepted.
		cluster string
		claimed bool
	}{
		{"a list", func() error { return one.Replace([]any{object("a", "root:a", "Bound", "Accepted")}, "1") }, "", "a", true},
		{"another shard's list", func() error { return two.Replace([]any{object("b", "root:b", "Bound", "Accepted")}, "1") }, "", "a", true},
		{"the same again", func() error { return one.Update(object("a", "root:a", "Bound", "Accepted")) }, "", "a", true},
		{"the claim withdrawn", func() error { return one.Update(object("a", "root:a", "Bound", "Rejected")) }, "a", "a", false},
		{"not bound whole", func() error { return one.Update(object("a", "root:a", "Binding", "Accepted")) }, "a", "a", true},
		{"bound again", func() error { return one.Update(object("a", "root:a", "Bound", "Accepted")) }, "a", "a", true},
		{"going", func() error { return one.Update(going(object("a", "root:a", "Bound", "Accepted"))) }, "a", "", false},
		{"deleted", func() error { return one.Delete(object("a", "root:a", "Bound", "Accepted")) }, "a", "", false},
		{"made anew under its path", func() error { return one.Add(object("a2", "root:a", "Bound", "Accepted")) }, "", "a2", true},
		{"a list without it", func() error { return one.Replace(nil, "2") }, "a2", "", false},
		{"what is no binding", func() error { return one.Replace([]any{"x"}, "3") }, "", "", false},
	} {
		told = nil
		must(step.do())
		found, _ := b.find("root:a")
		if ended := b.ended("a"); ended != (step.name == "going") {
			t.Errorf("%s: the workspace has given the export up: %t", step.name, ended)
		}
		if got := strings.Join(told, " "); got != step.told || found.Cluster != step.cluster || found.Claimed != step.claimed {
			t.Errorf("%s: told %q, found %+v", step.name, got, found)
		}
	}
	b.drop("https://two")
	if _, ok := b.find("root:b"); ok || strings.Join(told, " ") != "b" || len(b.byPath) != 0 || len(b.byCluster) != 0 {
		t.Errorf("after the endpoint went: %v, %v, told %q", b.byPath, b.byCluster, told)
	}
	if b.complete([]string{"https://two"}) || !b.complete([]string{"https://one"}) {
		t.Error("a dropped endpoint counts as listed, or a listed one does not")
	}
}

func TestWhichBindingsAreNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const within = 10 * time.Second
		b := newBindingIndex("sandbar.dev", reviews)
		started := time.Now()
		old := Binding{Cluster: "old", Path: "root:old", Name: "b", Bound: true, created: started.Add(-time.Hour).Unix()}
		young := Binding{Cluster: "young", Path: "root:young", Name: "b", Bound: true, created: started.Add(-8 * time.Second).Unix()}
		for _, listed := range []Binding{old, young} {
			b.put(listed, time.Unix(listed.created, 0)) // as a list puts it
		}
		b.put(Binding{Cluster: "binding", Path: "root:binding", Name: "b"}, time.Now()) // not bound yet
		want := func(when string, workspaces map[string]bool) {
			t.Helper()
			for workspace, is := range workspaces {
				if got := b.isNew(workspace, within); got != is {
					t.Errorf("%s: %s is new: %t, want %t", when, workspace, got, is)
				}
			}
		}
		want("at the start", map[string]bool{"root:old": false, "old": false, "root:young": true, "young": true, "root:binding": true, "nowhere": false})
		time.Sleep(3 * time.Second)
		b.put(Binding{Cluster: "binding", Path: "root:binding", Name: "b", Bound: true}, time.Now())
		want("three seconds later", map[string]bool{"root:young": false, "root:binding": true, "binding": true})
		time.Sleep(9 * time.Second)
		claimed := old
		claimed.Claimed = true
		b.put(claimed, time.Now())
		b.put(claimed, time.Now())
		want("when a claim is accepted", map[string]bool{"root:old": true, "root:binding": true})
		time.Sleep(2 * time.Second)
		renamed := claimed
		renamed.Path = "root:renamed"
		b.put(renamed, time.Now())
		want("when something else changes", map[string]bool{"old": true, "root:binding": false})
		time.Sleep(within)
		want("later", map[string]bool{"old": false, "root:renamed": false})
		b.remove(renamed)
		if len(b.news) != 2 {
			t.Errorf("what is remembered of bindings that are gone: %v", b.news)
		}
	})
}
