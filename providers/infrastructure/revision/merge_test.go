// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package revision

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/golden"
)

func graphOf(t testing.TB, text string) Graph {
	t.Helper()
	var spec map[string]any
	if err := yaml.Unmarshal([]byte(text), &spec); err != nil {
		t.Fatal(err)
	}
	g, err := NewGraph(spec, &sandbarv1alpha1.DataPlane{})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

const first = `
schema:
  apiVersion: v1alpha1
  kind: Web
  group: sandbar.dev
  spec: {suspended: boolean | default=false, size: string | default="1Gi"}
  types: {Tag: string | maxLength=10}
  status:
    ref: {name: "${app.metadata.name}", namespace: "${app.metadata.namespace}"}
    text: "at ${app.metadata.name}: ${schema.spec.size}"
    gone: ${data.metadata.name}
resources:
- id: platform
  externalRef: {apiVersion: v1, kind: ConfigMap, metadata: {name: sandbar-platform, namespace: sandbar-system}}
- id: data
  template: {apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data}}
- id: app
  readyWhen: ["${app.status.?readyReplicas.orValue(0) == 1}"]
  includeWhen: ["${schema.spec.size != \"\"}"]
  template:
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: app, annotations: {data: "${data.metadata.name}"}}
    spec: {image: "${platform.data.nodeImage}", other: "${platform.data.?more.orValue(\"\")}"}
`

var second = strings.NewReplacer(
	"gone: ${data.metadata.name}", "fresh: ${schema.spec.more}", `size: string | default="1Gi"`, `size: string | default="2Gi", more: string | default="b"`,
	"kind: Deployment", "kind: StatefulSet", "types: {Tag: string | maxLength=10}", "types: {Tag: string | maxLength=20, Other: string}",
).Replace(first)

func TestTwoRevisionsBecomeOneGraph(t *testing.T) {
	merged, err := Merge(graphOf(t, second), []Graph{graphOf(t, first)}, false)
	if err != nil {
		t.Fatal(err)
	}
	got, err := yaml.Marshal(merged)
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "testdata/merged.golden.yaml", got)
}

// A single revision is included without a condition, so that nothing of an instance depends on a
// field that somebody might change by hand.
func TestASingleRevisionHasNoCondition(t *testing.T) {
	merged, err := Merge(graphOf(t, first), nil, false)
	if err != nil {
		t.Fatal(err)
	}
	raw, _ := json.Marshal(merged["resources"])
	if got := strings.Count(string(raw), `"includeWhen"`); got != 1 {
		t.Errorf("%d resources have conditions, want the one of the author: %s", got, raw)
	}
}

// kro deletes the children of a resource that is not included any more, volumes too. So whatever
// stands in the field, exactly one revision is included.
func FuzzEveryInstanceHasExactlyOneRevision(f *testing.F) {
	for _, name := range []string{"", "-", "aaaaaaaa-bbbbbbbb", "bbbbbbbb-x", "aaaaaaaa", "cccccccc-", "\"", "aaaaaaaa-\\"} {
		f.Add(name, uint8(2), false)
		f.Add(name, uint8(3), true)
	}
	env, err := cel.NewEnv(cel.Variable("schema", cel.DynType))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, name string, n uint8, legacy bool) {
		hashes := []string{"aaaaaaaa", "bbbbbbbb", "cccccccc", "aaaaaaab"}[:1+n%4]
		var graphs []Graph
		for _, hash := range hashes {
			graphs = append(graphs, Graph{Hash: hash})
		}
		if legacy {
			graphs = append(graphs, Graph{})
		}
		included := 0
		for _, condition := range conditions(graphs) {
			if condition == "" {
				included++
				continue
			}
			ast, issues := env.Compile(condition)
			if issues.Err() != nil {
				t.Fatalf("%s: %v", condition, issues.Err())
			}
			program, err := env.Program(ast)
			if err != nil {
				t.Fatal(err)
			}
			value, _, err := program.Eval(map[string]any{"schema": map[string]any{"spec": map[string]any{Field: name}}})
			if err != nil {
				t.Fatalf("%s: %v", condition, err)
			}
			if value.Value() == true {
				included++
			}
		}
		if included != 1 {
			t.Errorf("%d of %d revisions are included for %q, want exactly one", included, len(graphs), name)
		}
	})
}

func TestAnInstanceOfAFormerTimeKeepsItsGraph(t *testing.T) {
	legacy := graphOf(t, first)
	legacy.Hash = ""
	target := graphOf(t, second)
	got := conditions([]Graph{target, legacy})
	want := []string{
		`schema.spec.sandbarRevision.startsWith("` + target.Hash + `-")`,
		`!(schema.spec.sandbarRevision.startsWith("` + target.Hash + `-"))`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	merged, err := Merge(target, []Graph{legacy}, false)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, r := range merged["resources"].([]any) {
		ids = append(ids, r.(map[string]any)["id"].(string))
	}
	for _, want := range []string{"app", "appR" + target.Hash} {
		if !slices.Contains(ids, want) {
			t.Errorf("the graph has no resource %s, it has %v", want, ids)
		}
	}
}

func TestAStatusFieldCannotBecomeAnObjectWhileInstancesHaveBoth(t *testing.T) {
	object := strings.Replace(first, "gone: ${data.metadata.name}", "gone: {name: \"${data.metadata.name}\"}", 1)
	_, err := Merge(graphOf(t, object), []Graph{graphOf(t, first)}, false)
	if !errors.Is(err, ErrShape) || !strings.Contains(err.Error(), "status.gone") {
		t.Errorf("error = %v, want ErrShape for status.gone", err)
	}
}

func TestWhatIsComposedMakesARevision(t *testing.T) {
	base := graphOf(t, first)
	for name, tc := range map[string]struct {
		text string
		same bool
	}{
		"another description of a field": {strings.Replace(first, `size: string`, `size: string | description="Size."`, 1), true},
		"another resource":               {strings.Replace(first, "name: data}", "name: other}", 1), false},
		"another status":                 {strings.Replace(first, "at ${app", "of ${app", 1), false},
	} {
		if got := graphOf(t, tc.text).Hash == base.Hash; got != tc.same {
			t.Errorf("%s: the same revision: %v, want %v", name, got, tc.same)
		}
	}
}

func TestOnlyValuesThatTheGraphReadsMakeARevision(t *testing.T) {
	g := graphOf(t, first)
	platform := map[string]string{"nodeImage": "n:1", "redisImage": "r:1", "more": "m"}
	name, values, err := g.Of(platform)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"nodeImage": "n:1", "more": "m"}, values); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
	if !g.IsOf(name) || g.IsOf("") || (Graph{}).IsOf("-x") {
		t.Errorf("%q is not told apart", name)
	}
	for key, same := range map[string]bool{"redisImage": true, "nodeImage": false, "more": false} {
		changed := map[string]string{"nodeImage": "n:1", "redisImage": "r:1", "more": "m"}
		changed[key] = "changed"
		if other, _, _ := g.Of(changed); (other == name) != same {
			t.Errorf("after a change of %s the revision is %s, was %s", key, other, name)
		}
	}
}

func TestARecordComesBackAsItWas(t *testing.T) {
	want := []Graph{graphOf(t, first), graphOf(t, second)}
	record, err := Encode(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Decode(record)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for i := range want {
		again, err := NewGraph(got[i].Spec, &got[i].DataPlane)
		if err != nil || again.Hash != want[i].Hash {
			t.Errorf("the hash is %s after a record and was %s: %v", again.Hash, want[i].Hash, err)
		}
	}
	for _, damaged := range []string{"", "x", record[:len(record)/2]} {
		if _, err := Decode(damaged); err == nil {
			t.Errorf("a damaged record of %d bytes was read", len(damaged))
		}
	}
}

func TestARecordThatIsTooLargeIsRefused(t *testing.T) {
	g := graphOf(t, first)
	var noise strings.Builder
	for i := range 200_000 {
		fmt.Fprintf(&noise, "%x", i*2654435761)
	}
	g.Spec["noise"] = noise.String()
	if _, err := Encode([]Graph{g}); err == nil {
		t.Error("a record larger than an object's annotations was made")
	}
}

func TestMessagesHaveTheIDsOfTheAuthor(t *testing.T) {
	got := Plain(`waiting for node "appR0a1b2c3d": appR0a1b2c3d.status.x, HTTPRoute, workspaceR12`)
	if want := `waiting for node "app": app.status.x, HTTPRoute, workspaceR12`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
