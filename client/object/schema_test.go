// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbar-dev/sandbar/client/object/objecttest"
)

func testSchema(t *testing.T) *Schema {
	t.Helper()
	server, c := newWorkspace(t)
	withOpenAPI(t, server)
	s, err := c.Schema(t.Context(), sandboxesOf(t, c))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// withOpenAPI gives the workspace's kinds their schemas.
func withOpenAPI(t *testing.T, server *objecttest.Server) {
	t.Helper()
	text, err := os.ReadFile("testdata/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	server.OpenAPI = map[string]string{"sandbar.dev/v1alpha1": string(text)}
}

func TestAFieldIsSetAsTheTypeThatItsKindHas(t *testing.T) {
	s := testSchema(t)
	for settings, want := range map[string]string{
		"spec.displayName=true":                       `{"spec":{"displayName":"true"}}`,
		"displayName=":                                `{"spec":{"displayName":""}}`,
		"displayName=a=b, c":                          `{"spec":{"displayName":"a=b, c"}}`,
		"suspended=true":                              `{"spec":{"suspended":true}}`,
		"replicas=3":                                  `{"spec":{"replicas":3}}`,
		"weight=0.5":                                  `{"spec":{"weight":0.5}}`,
		"port=8080":                                   `{"spec":{"port":8080}}`,
		"port=http":                                   `{"spec":{"port":"http"}}`,
		"visibility=public":                           `{"spec":{"visibility":"public"}}`,
		"tags=[web, shop]":                            `{"spec":{"tags":["web","shop"]}}`,
		"tags[0]=web tags[1]=shop":                    `{"spec":{"tags":["web","shop"]}}`,
		"lifecycle={sleepAfterUnused: 30m}":           `{"spec":{"lifecycle":{"sleepAfterUnused":"30m"}}}`,
		"lifecycle.sleepAfterUnused=30m":              `{"spec":{"lifecycle":{"sleepAfterUnused":"30m"}}}`,
		"env.PATH=/bin":                               `{"spec":{"env":{"PATH":"/bin"}}}`,
		`env.a\.b=1`:                                  `{"spec":{"env":{"a.b":"1"}}}`,
		"pod.containers[0].image=web pod.n=1":         `{"spec":{"pod":{"containers":[{"image":"web"}],"n":1}}}`,
		"anything.b=x":                                `{"spec":{"anything":{"b":"x"}}}`,
		"metadata.labels.env=prod":                    `{"metadata":{"labels":{"env":"prod"}}}`,
		"lifecycle.sleepAfterUnused=1m displayName=x": `{"spec":{"displayName":"x","lifecycle":{"sleepAfterUnused":"1m"}}}`,
	} {
		object := map[string]any{}
		for _, setting := range splitSettings(settings) {
			if err := s.Set(object, setting); err != nil {
				t.Errorf("%s: %v", settings, err)
			}
		}
		got, err := json.Marshal(object)
		if err != nil || string(got) != want {
			t.Errorf("%s\n%s", settings, cmp.Diff(want, string(got)))
		}
	}
}

// splitSettings splits at spaces behind which there is another setting.
func splitSettings(text string) []string {
	var settings []string
	for part := range strings.SplitSeq(text, " ") {
		if len(settings) == 0 || strings.Contains(part, "=") {
			settings = append(settings, part)
			continue
		}
		settings[len(settings)-1] += " " + part
	}
	return settings
}

func TestAFieldThatCannotBeSetIsRefusedWithTheReason(t *testing.T) {
	s := testSchema(t)
	for setting, want := range map[string]string{
		"displayName":                  `"displayName": write PATH=VALUE, for example spec.displayName=Shop`,
		"=x":                           `"=x": the path has an empty name`,
		"spec..x=1":                    `"spec..x=1": the path has an empty name`,
		"dispalyName=x":                `"dispalyName=x": Sandbox's spec has no field dispalyName; it has anything, displayName, env, lifecycle, pod, port, replicas, suspended, tags, visibility, weight`,
		"lifecycle.sleep=x":            `"lifecycle.sleep=x": Sandbox's spec.lifecycle has no field sleep; it has sleepAfterUnused`,
		"displayName.x=1":              `"displayName.x=1": Sandbox's spec.displayName has no fields: it is of type string`,
		"displayName[0]=1":             `"displayName[0]=1": spec.displayName is not a list`,
		"tags[x]=1":                    `"tags[x]=1": "tags[x]" is not an element of a list, such as tags[0]`,
		"tags[0=1":                     `"tags[0=1": "tags[0" is not an element of a list, such as tags[0]`,
		"tags[0]x=1":                   `"tags[0]x=1": "tags[0]x" is not an element of a list, such as tags[0]`,
		"tags[1000]=1":                 `"tags[1000]=1": the index 1000 is above 999`,
		"tags[1]=x":                    `"tags[1]=x": the element [1] would leave a gap: the list has 0`,
		"tags=x":                       `"tags=x": spec.tags is a list, for example [a, b], and not "x"`,
		"lifecycle=x":                  `"lifecycle=x": spec.lifecycle is an object, for example {a: b}, and not "x"`,
		"lifecycle={a":                 `"lifecycle={a": spec.lifecycle is not YAML: "{a"`,
		"suspended=yes":                `"suspended=yes": spec.suspended is true or false, and not "yes"`,
		"replicas=1.5":                 `"replicas=1.5": spec.replicas is a whole number, and not "1.5"`,
		"replicas=9999999999999999999": `"replicas=9999999999999999999": spec.replicas is a whole number, and not "9999999999999999999"`,
		"weight=heavy":                 `"weight=heavy": spec.weight is a number, and not "heavy"`,
		"visibility=everyone":          `"visibility=everyone": spec.visibility is one of private, project, public, and not "everyone"`,
	} {
		err := s.Set(map[string]any{}, setting)
		var refused *SetError
		if !errors.As(err, &refused) || err.Error() != want {
			t.Errorf("%s\ngot  %v\nwant %s", setting, err, want)
		}
	}
}

func TestASettingDoesNotReplaceAValueByFields(t *testing.T) {
	s := testSchema(t)
	object := map[string]any{"spec": map[string]any{"anything": "text", "pod": map[string]any{"containers": "text"}}}
	for setting, want := range map[string]string{
		"anything.b=1":        `"anything.b=1": the object has a value where b is to have fields`,
		"pod.containers[0]=1": `"pod.containers[0]=1": the object has a value where [0] is to be an element`,
	} {
		if err := s.Set(object, setting); text(err) != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestAKindWithoutASchemaIsRefusedWithAWayOut(t *testing.T) {
	server, c := newWorkspace(t)
	server.OpenAPI = map[string]string{"sandbar.dev/v1alpha1": `{"components":{"schemas":{}}}`}
	_, err := c.Schema(t.Context(), sandboxesOf(t, c))
	if want := "the workspace has no schema of sandboxes: write the object in a file and create it with -f"; text(err) != want {
		t.Errorf("%v", err)
	}
}

func FuzzSettings(f *testing.F) {
	for _, seed := range []string{"spec.displayName=x", "tags[0]=a", "a.b[1][2].c={x: [1]}", `a\.b=`, "[=", "tags[", "lifecycle={a: &a [*a]}"} {
		f.Add(seed)
	}
	text, err := os.ReadFile("testdata/openapi.json")
	if err != nil {
		f.Fatal(err)
	}
	var document struct {
		Components struct{ Schemas map[string]*property }
	}
	if err := json.Unmarshal(text, &document); err != nil {
		f.Fatal(err)
	}
	s := &Schema{kind: Kind{Name: "Sandbox"}, root: document.Components.Schemas["dev.sandbar.v1alpha1.Sandbox"], all: document.Components.Schemas}
	f.Fuzz(func(t *testing.T, setting string) {
		object := map[string]any{}
		if err := s.Set(object, setting); err != nil {
			return
		}
		if _, err := json.Marshal(object); err != nil {
			t.Errorf("%q makes an object that cannot be sent: %v", setting, err)
		}
	})
}
