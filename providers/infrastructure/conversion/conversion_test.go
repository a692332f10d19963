// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package conversion

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/templates"
)

// forEach are conversions, by the names of their fields.
func forEach(t testing.TB, field, expression string, more ...string) *Set {
	t.Helper()
	conversions := []sandbarv1alpha1.Conversion{{Field: field, Expression: expression}}
	for i := 0; i < len(more); i += 2 {
		conversions = append(conversions, sandbarv1alpha1.Conversion{Field: more[i], Expression: more[i+1]})
	}
	set, err := Compile(conversions)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func sandboxes(t testing.TB) *Set {
	t.Helper()
	tmpl, err := templates.Get("sandbox")
	if err != nil {
		t.Fatal(err)
	}
	set, err := Compile(tmpl.Spec.Conversions)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestASpecGetsTheFormOfThePresentSchema(t *testing.T) {
	for name, tc := range map[string]struct {
		set        *Set
		spec, want map[string]any
		failed     string
	}{
		"nothing to convert": {set: nil, spec: map[string]any{"a": "b"}, want: map[string]any{"a": "b"}},
		"no spec":            {set: sandboxes(t), spec: nil, want: nil},
		"a Sandbox of version 0.1.0": {
			set:  sandboxes(t),
			spec: map[string]any{"projectRef": "shop", "owner": "jane@example.com", "tags": []any{"demo", "q4"}, "suspended": false, "template": map[string]any{"a": int64(1)}},
			want: map[string]any{
				"projectRef": map[string]any{"id": "shop"}, "owner": map[string]any{"type": "user", "id": "jane@example.com"},
				"tags": map[string]any{"demo": "", "q4": ""}, "suspended": false, "template": map[string]any{"a": int64(1)},
			},
		},
		"one whose words are empty": {
			set:  sandboxes(t),
			spec: map[string]any{"projectRef": "", "owner": "", "tags": []any{}, "displayName": ""}, want: map[string]any{"tags": map[string]any{}, "displayName": ""},
		},
		"one of version 0.2.0": {
			set: sandboxes(t),
			spec: map[string]any{
				"projectRef": map[string]any{"id": "shop"}, "owner": map[string]any{"type": "group", "id": "web", "displayName": "Web"}, "tags": map[string]any{"a": "b"},
			},
			want: map[string]any{
				"projectRef": map[string]any{"id": "shop"}, "owner": map[string]any{"type": "group", "id": "web", "displayName": "Web"}, "tags": map[string]any{"a": "b"},
			},
		},
		"null is a field that is not there": {set: forEach(t, "a", "'x'"), spec: map[string]any{"a": nil}, want: map[string]any{"a": nil}},
		"null takes a field away":           {set: forEach(t, "a", "null"), spec: map[string]any{"a": "x", "b": "y"}, want: map[string]any{"b": "y"}},
		"whole numbers stay whole":          {set: forEach(t, "a", "[self, dyn(self + 1), dyn(2u)]"), spec: map[string]any{"a": int64(1)}, want: map[string]any{"a": []any{int64(1), int64(2), int64(2)}}},
		"and others do not become so":       {set: forEach(t, "a", "{'b': self}"), spec: map[string]any{"a": 1.5}, want: map[string]any{"a": map[string]any{"b": 1.5}}},
		"a field whose conversion fails stays, and the others are converted": {
			set: forEach(t, "a", "self.b", "c", "'x' + self"), spec: map[string]any{"a": "secret", "c": "y"}, want: map[string]any{"a": "secret", "c": "xy"},
			failed: "the conversion of spec.a fails",
		},
		"a result that is not JSON is a failure": {set: forEach(t, "a", "b'x'"), spec: map[string]any{"a": "y"}, want: map[string]any{"a": "y"}, failed: "the conversion of spec.a fails"},
		"one that costs too much is a failure": {
			set:  forEach(t, "a", "self.map(x, self.map(y, self.map(z, x + y + z)))"),
			spec: map[string]any{"a": long()}, want: map[string]any{"a": long()}, failed: "the conversion of spec.a fails",
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := runtime.DeepCopyJSON(tc.spec)
			got, differs, err := tc.set.Of(tc.spec)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, tc.spec); diff != "" {
				t.Errorf("the given spec was changed (-was +is):\n%s", diff)
			}
			if differs != !cmp.Equal(before, got) {
				t.Errorf("differs is %v", differs)
			}
			if (err == nil) != (tc.failed == "") || err != nil && err.Error() != tc.failed {
				t.Errorf("err = %v, want %q", err, tc.failed)
			}
			again, differs, _ := tc.set.Of(got)
			if tc.set != nil && strings.Contains(name, "0.") && differs {
				t.Errorf("what is converted is converted again, to %v", again)
			}
		})
	}
}

func long() []any {
	list := make([]any, 200)
	for i := range list {
		list[i] = int64(i)
	}
	return list
}

func TestAnExpressionThatIsWrongIsNamed(t *testing.T) {
	for name, tc := range map[string]struct{ expression, want string }{
		"half of one":          {"type(self) ==", "Syntax error"},
		"another variable":     {"object.spec", "undeclared reference to 'object'"},
		"no such function":     {"self.idOf()", "undeclared reference to 'idOf'"},
		"two kinds of results": {"self == '' ? null : {'id': self}", "no matching overload"},
	} {
		t.Run(name, func(t *testing.T) {
			set, err := Compile([]sandbarv1alpha1.Conversion{{Field: "a", Expression: "self"}, {Field: "owner", Expression: tc.expression}})
			if set != nil || err == nil || !strings.HasPrefix(err.Error(), "spec.conversions[1].expression, of the field owner: ") ||
				!strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("err = %v, want it to tell %q", err, tc.want)
			}
		})
	}
}

func TestSetsAreEqualIfTheirConversionsAre(t *testing.T) {
	a, again, b := forEach(t, "a", "self"), forEach(t, "a", "self"), forEach(t, "a", "'x'")
	var none *Set
	for name, tc := range map[string]struct {
		one, other *Set
		want       bool
	}{
		"the same":      {a, again, true},
		"others":        {a, b, false},
		"none and some": {none, a, false},
		"some and none": {a, none, false},
		"none and none": {none, none, true},
	} {
		if got := tc.one.Equal(tc.other); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
