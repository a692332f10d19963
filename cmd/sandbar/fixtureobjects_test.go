// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/client/object/objecttest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// instanceColumnsOf are those that the server prints of every kind of instance, with one of the kind's own.
func instanceColumnsOf(own string, path ...string) []objecttest.Column {
	column := func(name, kind string, priority int32, path ...string) objecttest.Column {
		return objecttest.Column{
			TableColumnDefinition: metav1.TableColumnDefinition{Name: name, Type: kind, Priority: priority},
			Cell: func(obj *unstructured.Unstructured) any {
				value, _, _ := unstructured.NestedFieldNoCopy(obj.Object, path...)
				return value
			},
		}
	}
	return []objecttest.Column{
		column("State", "string", 0, "status", "phase"),
		column("Idle", "date", 0, "status", "activity", "lastActiveTime"),
		column("Expires", "string", 0, "spec", "lifecycle", "shutdownTime"),
		column("Age", "date", 0, "metadata", "creationTimestamp"),
		column("URL", "string", 1, "status", "dataPlane", "url"),
		column(own, "string", 0, path...),
	}
}

// withObjects makes a world's workspace one that has objects, and returns it.
func (w *world) withObjects(t *testing.T) *objecttest.Server {
	t.Helper()
	sandbar := func(kind, resource, short string) objecttest.Kind {
		return objecttest.Kind{GVK: sandbarv1alpha1.GroupVersion.WithKind(kind), Resource: resource, ShortNames: []string{short}}
	}
	runners, sandboxes, sets := sandbar("SandboxRunner", "sandboxrunners", "sbr"), sandbar("Sandbox", "sandboxes", "sbx"), sandbar("SandboxSet", "sandboxsets", "sbs")
	runners.Columns = instanceColumnsOf("Start command", "spec", "startCommand")
	sandboxes.Columns = instanceColumnsOf("Start", "status", "start", "type")
	sets.Columns = []objecttest.Column{{
		TableColumnDefinition: metav1.TableColumnDefinition{Name: "Desired", Type: "integer"},
		Cell: func(obj *unstructured.Unstructured) any {
			n, _, _ := unstructured.NestedInt64(obj.Object, "spec", "replicas")
			return n
		},
	}}
	s := objecttest.New(runners, sandboxes, sets,
		objecttest.Kind{GVK: schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}, Resource: "namespaces", Cluster: true},
		objecttest.Kind{GVK: schema.GroupVersionKind{Version: "v1", Kind: "Event"}, Resource: "events"},
		objecttest.Kind{GVK: schema.GroupVersionKind{Group: "apis.kcp.io", Version: "v1alpha2", Kind: "APIBinding"}, Resource: "apibindings", Cluster: true},
	)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kcp = func(rw http.ResponseWriter, r *http.Request) bool {
		s.ServeHTTP(rw, r)
		return true
	}
	return s
}

// daysAgo is a time whose age is printed as so many days for the next half day.
func daysAgo(days int) string {
	return time.Now().Add(-(time.Duration(days)*24*time.Hour + 12*time.Hour)).UTC().Format(time.RFC3339)
}

// stocked is a workspace with a few objects, the youngest of which is the first by its name.
func (w *world) stocked(t *testing.T) *objecttest.Server {
	t.Helper()
	s := w.withObjects(t)
	s.Put("sandboxes", map[string]any{
		"apiVersion": "sandbar.dev/v1alpha1", "kind": "Sandbox",
		"metadata": map[string]any{"name": "web", "uid": "uid-of-web", "creationTimestamp": daysAgo(30), "labels": map[string]any{"env": "prod", "tier": "web"}},
		"spec":     map[string]any{"template": map[string]any{"templateRef": map[string]any{"name": "node-22"}}, "lifecycle": map[string]any{"shutdownTime": daysAgo(-10)}},
		"status": map[string]any{
			"phase": "Ready", "activity": map[string]any{"lastActiveTime": daysAgo(12)}, "start": map[string]any{"type": "Warm"},
			"dataPlane": map[string]any{"url": "https://sandboxes.example.com/web"},
		},
	})
	s.Put("sandboxes", map[string]any{
		"apiVersion": "sandbar.dev/v1alpha1", "kind": "Sandbox",
		"metadata": map[string]any{"name": "api", "uid": "uid-of-api", "creationTimestamp": daysAgo(20), "labels": map[string]any{"env": "test"}},
		"spec":     map[string]any{"lifecycle": map[string]any{"shutdownTime": daysAgo(1)}},
		"status":   map[string]any{"phase": "Suspended"},
	})
	s.Put("sandboxes", map[string]any{
		"apiVersion": "sandbar.dev/v1alpha1", "kind": "Sandbox",
		"metadata": map[string]any{"name": "new", "uid": "uid-of-new", "namespace": "other", "creationTimestamp": daysAgo(10), "labels": map[string]any{"env": "prod"}},
		"spec":     map[string]any{},
	})
	s.Put("sandboxrunners", map[string]any{
		"apiVersion": "sandbar.dev/v1alpha1", "kind": "SandboxRunner",
		"metadata": map[string]any{"name": "app", "uid": "uid-of-app", "creationTimestamp": daysAgo(26)},
		"spec":     map[string]any{"toolchain": "go"}, "status": map[string]any{"phase": "Failed\x1b[2J"},
	})
	s.Put("sandboxsets", map[string]any{
		"apiVersion": "sandbar.dev/v1alpha1", "kind": "SandboxSet",
		"metadata": map[string]any{"name": "warm", "uid": "uid-of-warm", "creationTimestamp": daysAgo(15)}, "spec": map[string]any{"replicas": int64(3)},
	})
	return s
}

// times are replaced in transcripts.
var times = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)

// turn is a command of a transcript.
type turn struct {
	name, args string
	// input is what the command reads.
	input string
}

// transcript runs commands one after the other, and compares all that a person sees with a golden file.
func (w *world) transcript(t *testing.T, file string, turns []turn) {
	t.Helper()
	var golden strings.Builder
	for _, c := range turns {
		code, stdout, stderr := w.runWith(t, strings.NewReader(c.input), arguments(c.args)...)
		text := workspaceHost.ReplaceAllString(stdout+untimed(stderr), "https://kcp.example.com")
		fmt.Fprintf(&golden, "# %s\n$ sandbar %s\n%s(exit code %d)\n\n", c.name, c.args, times.ReplaceAllString(text, "<time>"), code)
	}
	name := filepath.Join("testdata", file)
	if *update {
		if err := os.WriteFile(name, []byte(golden.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), golden.String()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

// arguments are the words of a command line, in which single quotes keep spaces together.
func arguments(line string) []string {
	var words []string
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			words[len(words)-1] += part
			continue
		}
		more := strings.Split(part, " ")
		if i > 0 {
			words[len(words)-1] += more[0]
			more = more[1:]
		}
		words = append(words, more...)
	}
	return words
}

// objects are those of a workspace, by resource and name; a resource that is not there is not bound.
type objects map[string]map[string]map[string]any

var kindsOf = map[string]string{"sandboxrunners": "SandboxRunner", "sandboxes": "Sandbox", "redis": "Redis"}

// has makes a workspace have objects alone.
func (w *world) has(o objects) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kcp = func(rw http.ResponseWriter, r *http.Request) bool { return o.answer(rw, r) }
}

// answer is what a workspace answers. It leaves an object that is nil to the world.
func (o objects) answer(rw http.ResponseWriter, r *http.Request) bool {
	path := strings.TrimPrefix(r.URL.Path, "/clusters/root:me")
	rw.Header().Set("Content-Type", "application/json")
	if path == "/apis/sandbar.dev/v1alpha1" && len(o) > 0 {
		list := []map[string]any{}
		for resource := range o {
			list = append(list, map[string]any{
				"name": resource, "kind": kindsOf[resource], "singularName": strings.ToLower(kindsOf[resource]), "namespaced": true, "verbs": []string{"get", "list"},
			}, map[string]any{"name": resource + "/status", "kind": kindsOf[resource], "namespaced": true, "verbs": []string{"get"}})
		}
		_ = json.NewEncoder(rw).Encode(map[string]any{"kind": "APIResourceList", "groupVersion": "sandbar.dev/v1alpha1", "resources": list})
		return true
	}
	resource, name, one := strings.Cut(strings.TrimPrefix(path, "/apis/sandbar.dev/v1alpha1/namespaces/default/"), "/")
	all, bound := o[resource]
	switch obj, there := all[name]; {
	case !bound:
		rw.Header().Set("Content-Type", "text/plain; charset=utf-8")
		http.Error(rw, "404 page not found", http.StatusNotFound)
	case !one:
		items := []any{}
		for name := range all {
			items = append(items, map[string]any{"apiVersion": "sandbar.dev/v1alpha1", "kind": kindsOf[resource], "metadata": map[string]any{"name": name}})
		}
		_ = json.NewEncoder(rw).Encode(map[string]any{"apiVersion": "sandbar.dev/v1alpha1", "kind": kindsOf[resource] + "List", "items": items})
	case !there:
		rw.WriteHeader(http.StatusNotFound)
		_ = json.NewEncoder(rw).Encode(map[string]any{
			"apiVersion": "v1", "kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404,
			"message": fmt.Sprintf("%s.sandbar.dev %q not found", resource, name), "details": map[string]any{"name": name, "group": "sandbar.dev", "kind": resource},
		})
	case obj == nil:
		return false
	default:
		_ = json.NewEncoder(rw).Encode(obj)
	}
	return true
}

// becoming has a server give an object of a name one state after the other, once it is watched.
func becoming(s *objecttest.Server, name string, states ...map[string]any) {
	s.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("watch") == "" {
			return false
		}
		for _, status := range states {
			obj := s.Object("sandboxes", "default", name)
			obj.Object["status"] = status
			s.Put("sandboxes", obj.Object)
		}
		states = nil
		return false
	})
}

func stateWith(phase, status, message string) map[string]any {
	return map[string]any{"phase": phase, "observedGeneration": int64(1), "conditions": []any{
		map[string]any{"type": "Ready", "status": status, "message": message},
	}}
}
