// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package clitest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/client/object/objecttest"
)

// InstanceColumnsOf are those that the server prints of every kind of instance, with one of the kind's own.
func InstanceColumnsOf(own string, path ...string) []objecttest.Column {
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

// WithObjects makes a world's workspace one that has objects, and returns it.
func (w *World) WithObjects(t *testing.T) *objecttest.Server {
	t.Helper()
	sandbar := func(kind, resource, short string) objecttest.Kind {
		return objecttest.Kind{GVK: sandbarv1alpha1.GroupVersion.WithKind(kind), Resource: resource, ShortNames: []string{short}}
	}
	runners, sandboxes, sets := sandbar("SandboxRunner", "sandboxrunners", "sbr"), sandbar("Sandbox", "sandboxes", "sbx"), sandbar("SandboxSet", "sandboxsets", "sbs")
	runners.Columns = InstanceColumnsOf("Start command", "spec", "startCommand")
	sandboxes.Columns = InstanceColumnsOf("Start", "status", "start", "type")
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
	w.Mu.Lock()
	defer w.Mu.Unlock()
	w.KCP = func(rw http.ResponseWriter, r *http.Request) bool {
		s.ServeHTTP(rw, r)
		return true
	}
	return s
}

// DaysAgo is a time whose age is printed as so many days for the next half day.
func DaysAgo(days int) string {
	return time.Now().Add(-(time.Duration(days)*24*time.Hour + 12*time.Hour)).UTC().Format(time.RFC3339)
}

// Stocked is a workspace with a few objects, the youngest of which is the first by its name.
func (w *World) Stocked(t *testing.T) *objecttest.Server {
	t.Helper()
	s := w.WithObjects(t)
	s.Put("sandboxes", map[string]any{
		"apiVersion": "sandbar.dev/v1alpha1", "kind": "Sandbox",
		"metadata": map[string]any{"name": "web", "uid": "uid-of-web", "creationTimestamp": DaysAgo(30), "labels": map[string]any{"env": "prod", "tier": "web"}},
		"spec":     map[string]any{"template": map[string]any{"templateRef": map[string]any{"name": "node-22"}}, "lifecycle": map[string]any{"shutdownTime": DaysAgo(-10)}},
		"status": map[string]any{
			"phase": "Ready", "activity": map[string]any{"lastActiveTime": DaysAgo(12)}, "start": map[string]any{"type": "Warm"},
			"dataPlane": map[string]any{"url": "https://sandboxes.example.com/web"},
		},
	})
	s.Put("sandboxes", map[string]any{
		"apiVersion": "sandbar.dev/v1alpha1", "kind": "Sandbox",
		"metadata": map[string]any{"name": "api", "uid": "uid-of-api", "creationTimestamp": DaysAgo(20), "labels": map[string]any{"env": "test"}},
		"spec":     map[string]any{"lifecycle": map[string]any{"shutdownTime": DaysAgo(1)}},
		"status":   map[string]any{"phase": "Suspended"},
	})
	s.Put("sandboxes", map[string]any{
		"apiVersion": "sandbar.dev/v1alpha1", "kind": "Sandbox",
		"metadata": map[string]any{"name": "new", "uid": "uid-of-new", "namespace": "other", "creationTimestamp": DaysAgo(10), "labels": map[string]any{"env": "prod"}},
		"spec":     map[string]any{},
	})
	s.Put("sandboxrunners", map[string]any{
		"apiVersion": "sandbar.dev/v1alpha1", "kind": "SandboxRunner",
		"metadata": map[string]any{"name": "app", "uid": "uid-of-app", "creationTimestamp": DaysAgo(26)},
		"spec":     map[string]any{"toolchain": "go"}, "status": map[string]any{"phase": "Failed\x1b[2J"},
	})
	s.Put("sandboxsets", map[string]any{
		"apiVersion": "sandbar.dev/v1alpha1", "kind": "SandboxSet",
		"metadata": map[string]any{"name": "warm", "uid": "uid-of-warm", "creationTimestamp": DaysAgo(15)}, "spec": map[string]any{"replicas": int64(3)},
	})
	return s
}

// Times are replaced in transcripts.
var Times = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)

// Turn is a command of a transcript.
type Turn struct {
	Name, Args string
	// Input is what the command reads.
	Input string
}

// Transcript runs commands one after the other, and compares all that a person sees with a golden file.
func (w *World) Transcript(t *testing.T, file string, turns []Turn) {
	t.Helper()
	var golden strings.Builder
	for _, c := range turns {
		code, stdout, stderr := w.RunWith(t, strings.NewReader(c.Input), Arguments(c.Args)...)
		text := WorkspaceHost.ReplaceAllString(stdout+Untimed(stderr), "https://kcp.example.com")
		fmt.Fprintf(&golden, "# %s\n$ sandbar %s\n%s(exit code %d)\n\n", c.Name, c.Args, Times.ReplaceAllString(text, "<time>"), code)
	}
	CompareGolden(t, file, golden.String())
}

// Arguments are the words of a command line, in which single quotes keep spaces together.
func Arguments(line string) []string {
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

// Objects are those of a workspace, by resource and name; a resource that is not there is not bound.
type Objects map[string]map[string]map[string]any

// KindsOf are kinds of instances by their resources.
var KindsOf = map[string]string{"sandboxrunners": "SandboxRunner", "sandboxes": "Sandbox", "redis": "Redis"}

// Has makes a workspace have objects alone.
func (w *World) Has(o Objects) {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	w.KCP = func(rw http.ResponseWriter, r *http.Request) bool { return o.Answer(rw, r) }
}

// Answer is what a workspace answers. It leaves an object that is nil to the world.
func (o Objects) Answer(rw http.ResponseWriter, r *http.Request) bool {
	path := strings.TrimPrefix(r.URL.Path, "/clusters/root:me")
	rw.Header().Set("Content-Type", "application/json")
	if path == "/apis/sandbar.dev/v1alpha1" && len(o) > 0 {
		list := []map[string]any{}
		for resource := range o {
			list = append(list, map[string]any{
				"name": resource, "kind": KindsOf[resource], "singularName": strings.ToLower(KindsOf[resource]), "namespaced": true, "verbs": []string{"get", "list"},
			}, map[string]any{"name": resource + "/status", "kind": KindsOf[resource], "namespaced": true, "verbs": []string{"get"}})
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
			items = append(items, map[string]any{"apiVersion": "sandbar.dev/v1alpha1", "kind": KindsOf[resource], "metadata": map[string]any{"name": name}})
		}
		_ = json.NewEncoder(rw).Encode(map[string]any{"apiVersion": "sandbar.dev/v1alpha1", "kind": KindsOf[resource] + "List", "items": items})
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

// Becoming has a server give an object of a name one state after the other, once it is watched.
func Becoming(s *objecttest.Server, name string, states ...map[string]any) {
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

// StateWith is a status in a phase, with the condition Ready.
func StateWith(phase, status, message string) map[string]any {
	return map[string]any{"phase": phase, "observedGeneration": int64(1), "conditions": []any{
		map[string]any{"type": "Ready", "status": status, "message": message},
	}}
}

// Offers has the workspace's binding name the data plane with a hash. There is no SandboxRunner "new".
func (w *World) Offers(hash string) {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	w.KCP = func(rw http.ResponseWriter, r *http.Request) bool {
		rw.Header().Set("Content-Type", "application/json")
		switch {
		case strings.HasSuffix(r.URL.Path, "/apibindings"):
			_ = json.NewEncoder(rw).Encode(map[string]any{"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBindingList", "items": []any{map[string]any{
				"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding",
				"metadata": map[string]any{"name": "sandbar.dev", "annotations": map[string]any{
					"extra.apis.kcp.io/dataplane-url": w.URL, "extra.apis.kcp.io/dataplane-ca-sha256": hash,
				}},
				"status": map[string]any{"boundResources": []any{map[string]any{"group": "sandbar.dev", "resource": "sandboxrunners"}}},
			}}})
			return true
		case strings.HasSuffix(r.URL.Path, "/sandboxrunners/new"):
			return Objects{"sandboxrunners": {}}.Answer(rw, r)
		case r.Method == http.MethodGet:
			return false
		default:
			rw.WriteHeader(http.StatusForbidden)
			return true
		}
	}
}

// Completed is what a shell gets for a command line, without the directive, and with one word for each line.
func (w *World) Completed(t *testing.T, args ...string) string {
	t.Helper()
	_, stdout, _ := w.Run(t, append([]string{"__complete"}, args...)...)
	words, _, _ := strings.Cut(stdout, ":")
	return strings.Join(strings.Fields(strings.ReplaceAll(words, "\t", "=")), " ")
}

// Suspendable is a SandboxRunner that is suspended, or Ready.
func Suspendable(suspended bool) map[string]any {
	phase, ready := "Ready", "True"
	if suspended {
		phase, ready = "Suspended", "False"
	}
	return map[string]any{
		"apiVersion": "sandbar.dev/v1alpha1", "kind": "SandboxRunner", "metadata": map[string]any{"name": "web", "generation": int64(1)},
		"spec":   map[string]any{"suspended": suspended},
		"status": map[string]any{"phase": phase, "observedGeneration": int64(1), "conditions": []any{map[string]any{"type": "Ready", "status": ready}}},
	}
}
