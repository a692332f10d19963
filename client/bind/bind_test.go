// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package bind_test

import (
	"encoding/pem"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/sandbar-dev/sandbar/client/bind"
	"github.com/sandbar-dev/sandbar/client/workspacetest"
)

var export = bind.Export{Path: bind.DefaultPath, Name: bind.DefaultName}

// serve starts a server for a workspace and returns the way to it.
func serve(t *testing.T, w *workspacetest.Workspace) *rest.Config {
	t.Helper()
	w.Token, w.Exports = "alices", append(w.Exports, export.String())
	if w.Kinds == nil {
		w.Kinds = map[string]string{"sandboxrunners": "SandboxRunner", "sandboxes": "Sandbox"}
	}
	server := httptest.NewTLSServer(w)
	t.Cleanup(server.Close)
	return &rest.Config{
		Host: server.URL + "/clusters/root:me", BearerToken: w.Token,
		TLSClientConfig: rest.TLSClientConfig{CAData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})},
	}
}

// claim is a claim as an APIBinding has it.
func claim(group, resource, state string, verbs ...any) map[string]any {
	return map[string]any{"group": group, "resource": resource, "verbs": verbs, "state": state, "selector": map[string]any{"matchAll": true}}
}

// reviews and events are the claims of Sandbar.
func reviews(state string) map[string]any {
	return claim("authorization.k8s.io", "subjectaccessreviews", state, "create")
}
func events(state string) map[string]any { return claim("", "events", state, "create") }

func TestTheClaimsAreThoseOfTheExportAndOfTheSample(t *testing.T) {
	var want []string
	for _, c := range bind.Claims() {
		want = append(want, c.String())
		if c.Purpose == "" {
			t.Errorf("nobody learns what %s is for", c)
		}
	}
	type claims []struct {
		Group, Resource, State string
		Verbs                  []string
		Selector               struct{ MatchAll bool }
	}
	for _, file := range []string{"../../install/manifests/kcp/10-export.yaml", "../../examples/tenant/apibinding.yaml"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var obj struct {
			Kind     string
			Metadata struct{ Name string }
			Spec     struct {
				Reference        struct{ Export struct{ Path, Name string } }
				PermissionClaims claims
			}
		}
		if err := yaml.Unmarshal([]byte(strings.ReplaceAll(string(text), "{{ .Export }}", bind.DefaultName)), &obj); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		var got []string
		for _, c := range obj.Spec.PermissionClaims {
			got = append(got, bind.Claim{Group: c.Group, Resource: c.Resource, Verbs: c.Verbs}.String())
			if obj.Kind == "APIBinding" && (c.State != "Accepted" || !c.Selector.MatchAll) {
				t.Errorf("%s does not accept %s for all objects", file, c.Resource)
			}
		}
		want := want
		if obj.Kind == "APIExport" {
			want = append(slices.Clone(want), "get secrets") // which a workspace may grant by itself, for spec.envFrom
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-sandbar bind +file):\n%s", file, diff)
		}
		to := obj.Spec.Reference.Export
		if obj.Metadata.Name != bind.DefaultName || obj.Kind == "APIBinding" && (bind.Export{Path: to.Path, Name: to.Name}) != export {
			t.Errorf("%s is about %s %v, want %s", file, obj.Metadata.Name, to, export)
		}
	}
}

func TestAnExportIsNamedByItsWorkspace(t *testing.T) {
	for _, c := range []struct{ text, name, want string }{
		{"", "", "root:sandbar:sandbar.dev"},
		{"root:sandbar", "", "root:sandbar:sandbar.dev"},
		{"root:infra:boxes", "", "root:infra:boxes:sandbar.dev"},
		{"root:infra:boxes.example.com", "", "root:infra:boxes.example.com"},
		{"root:infra", "boxes", "root:infra:boxes"},
		{"root:infra:boxes.example.com", "boxes.example.com", "root:infra:boxes.example.com"},
		{"root:infra:boxes.example.com", "other", "leave one out"},
		{"https://kcp/clusters/root", "", "not the path of a workspace"},
		{"Root:sandbar", "", "not the path of a workspace"},
		{"root:", "", "not the path of a workspace"},
		{"https://kcp.example.com", "", "not the path of a workspace"},
		{"root:a b.dev", "", "not the path of a workspace"},
		{"root:-b.dev", "", "not the name of an APIExport"},
		{"root", "a\x1b[2J", "not the name of an APIExport"},
	} {
		got, err := bind.ParseExport(c.text, c.name)
		if err == nil && got.String() != c.want || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q and %q: got %v and %v, want %s", c.text, c.name, got, err, c.want)
		}
	}
}

// text is a plan in one line.
func text(p *bind.Plan) string {
	out := []string{p.Binding}
	if p.Exists {
		out[0] += " exists"
	}
	for _, part := range []struct {
		name   string
		claims []bind.Claim
	}{{"grants", p.Grants}, {"held", p.Held}, {"rejected", p.Rejected}, {"narrowed", p.Narrowed}, {"beyond", p.Beyond}} {
		for _, c := range part.claims {
			out = append(out, part.name+" "+c.String())
		}
	}
	return strings.Join(out, "; ")
}

func TestAPlanNamesWhatABindingGrants(t *testing.T) {
	narrow := reviews("Accepted")
	narrow["selector"] = map[string]any{"matchLabels": map[string]any{"a": "b"}}
	for name, c := range map[string]struct {
		arrange func(*workspacetest.Workspace)
		name    string
		want    string
	}{
		"nothing is bound": {
			arrange: func(*workspacetest.Workspace) {},
			want:    "sandbar.dev; grants create subjectaccessreviews.authorization.k8s.io; grants create events",
		},
		"another name is wanted": {
			arrange: func(*workspacetest.Workspace) {}, name: "boxes",
			want: "boxes; grants create subjectaccessreviews.authorization.k8s.io; grants create events",
		},
		"all is bound": {
			arrange: func(w *workspacetest.Workspace) {
				w.Has("sandbar.dev", export.Path, export.Name, reviews("Accepted"), events("Accepted"))
			},
			want: "sandbar.dev exists; held create subjectaccessreviews.authorization.k8s.io; held create events",
		},
		"the binding has another name": {
			arrange: func(w *workspacetest.Workspace) {
				w.Has("mine", export.Path, export.Name, reviews("Accepted"), events("Accepted"))
			},
			want: "mine exists; held create subjectaccessreviews.authorization.k8s.io; held create events",
		},
		"an older binding": {
			arrange: func(w *workspacetest.Workspace) { w.Has("sandbar.dev", export.Path, export.Name, reviews("Accepted")) },
			want:    "sandbar.dev exists; grants create events; held create subjectaccessreviews.authorization.k8s.io",
		},
		"a binding with a rejected claim": {
			arrange: func(w *workspacetest.Workspace) {
				w.Has("sandbar.dev", export.Path, export.Name, reviews("Rejected"), events("Accepted"))
			},
			want: "sandbar.dev exists; held create events; rejected create subjectaccessreviews.authorization.k8s.io",
		},
		"a binding with a selector": {
			arrange: func(w *workspacetest.Workspace) {
				w.Has("sandbar.dev", export.Path, export.Name, narrow, events("Accepted"))
			},
			want: "sandbar.dev exists; held create subjectaccessreviews.authorization.k8s.io; held create events; narrowed create subjectaccessreviews.authorization.k8s.io",
		},
		"a binding that lacks a verb": {
			arrange: func(w *workspacetest.Workspace) {
				w.Has("sandbar.dev", export.Path, export.Name, reviews("Accepted"), claim("", "events", "Accepted", "get"))
			},
			want: "sandbar.dev exists; grants create events; held create subjectaccessreviews.authorization.k8s.io; beyond get events",
		},
		"a binding that grants more": {
			arrange: func(w *workspacetest.Workspace) {
				w.Has("sandbar.dev", export.Path, export.Name, reviews("Accepted"), claim("", "events", "Accepted", "*"), claim("", "secrets", "Accepted", "get", "list"), claim("", "pods", "Rejected", "get"))
			},
			want: "sandbar.dev exists; held create subjectaccessreviews.authorization.k8s.io; held create events; beyond any access to events; beyond get, list secrets",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := &workspacetest.Workspace{}
			c.arrange(w)
			plan, err := bind.Look(t.Context(), serve(t, w), export, c.name)
			if err != nil {
				t.Fatal(err)
			}
			if got := text(plan); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if changes := w.Changes(); len(changes) > 0 {
				t.Errorf("looking changed something: %v", changes)
			}
		})
	}
}
