// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestIdentifiersAreRenamedAndNothingElse(t *testing.T) {
	rename := func(id string) string {
		if id == "app" || id == "db" {
			return id + "R1"
		}
		return id
	}
	for expr, want := range map[string]string{
		`app.metadata.name`:                          `appR1.metadata.name`,
		`schema.spec.app + app.db + "app"`:           `schema.spec.app + appR1.db + "app"`,
		`app.status.?db.orValue(0) == db.spec.n`:     `appR1.status.?db.orValue(0) == dbR1.spec.n`,
		`app[?"db"].orValue(db["app"])`:              `appR1[?"db"].orValue(dbR1["app"])`,
		`has(app.db) ? {"app": db} : {"app": null}`:  `has(appR1.db) ? {"app": dbR1} : {"app": null}`,
		`schema.spec.l.filter(app, app.x == "ü")[0]`: `schema.spec.l.filter(appR1, appR1.x == "ü")[0]`,
		`"ü€😀" + app.x`:                              `"ü€😀" + appR1.x`,
		"app.a +\n  db.b":                            "appR1.a +\n  dbR1.b",
		`apps + application.app`:                     `apps + application.app`,
		`cel.bind(x, app, x.y)`:                      `cel.bind(x, appR1, x.y)`,
	} {
		if got, err := Rename(expr, rename); err != nil || got != want {
			t.Errorf("Rename(%s) = %s, %v; want %s", expr, got, err, want)
		}
	}
	if _, err := Rename("app.", rename); err == nil {
		t.Error("half an expression was renamed")
	}
}

// FuzzRename: an expression that is renamed and renamed back is the one that it was.
func FuzzRename(f *testing.F) {
	for _, expr := range []string{`a.b`, `l.map(a, a + b)`, `"a" + a["a"]`, `a.?b[?0].orValue(a)`, "a\n// a\n+ a", `{"a": a}`, `r"a" + b"a"`} {
		f.Add(expr)
	}
	f.Fuzz(func(t *testing.T, expr string) {
		if strings.Contains(expr, "zzz") || !utf8.ValidString(expr) { // a Template arrives as JSON, which is UTF-8
			t.Skip()
		}
		renamed, err := Rename(expr, func(id string) string {
			if id == "a" {
				return "zzz"
			}
			return id
		})
		if err != nil {
			t.Skip()
		}
		back, err := Rename(renamed, func(id string) string {
			if id == "zzz" {
				return "a"
			}
			return id
		})
		if err != nil || back != expr {
			t.Errorf("%q became %q and then %q: %v", expr, renamed, back, err)
		}
	})
}

func TestEveryExpressionOfAValueIsReplaced(t *testing.T) {
	value := map[string]any{
		"plain": "text", "number": float64(1), "none": nil,
		"inside": []any{"<${a}-${b + \"}\"}>", map[string]any{"x": "${a}"}, "$${a} ${"},
	}
	got, err := Map(value, func(expr string) (string, error) { return "[" + expr + "]", nil })
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"plain": "text", "number": float64(1), "none": nil,
		"inside": []any{"<${[a]}-${[b + \"}\"]}>", map[string]any{"x": "${[a]}"}, "$${[a]} ${"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestUsesTellWhatAnExpressionReadsOfAMap(t *testing.T) {
	for expr, want := range map[string]struct {
		required, optional string
		all                bool
	}{
		`platform.data.nodeImage`:                                    {required: "nodeImage"},
		`platform.data["nodeImage"] + other.data.x`:                  {required: "nodeImage"},
		`platform.data.?a.orValue("") + platform.data[?"b"].value()`: {optional: "a b"},
		`has(platform.data.a) ? platform.data.a : "x"`:               {required: "a", optional: "a"},
		`["x"].exists(p, platform.data.a == p)`:                      {required: "a"},
		`{"k": platform.data.a, platform.data.b: 1}`:                 {required: "a b"},
		`platform.metadata.name`:                                     {},
		`schema.spec.platform.data.x`:                                {},
		`"a" in platform.data`:                                       {all: true},
		`platform.data[schema.spec.key]`:                             {all: true},
		`cel.bind(p, platform, p.data.a)`:                            {all: true},
		`platform.data.map(k, k)`:                                    {all: true},
	} {
		uses := NewUses()
		if err := uses.Add(expr, "platform", "data"); err != nil {
			t.Fatal(err)
		}
		keys := func(m map[string]bool) string { return strings.Join(slices.Sorted(maps.Keys(m)), " ") }
		if keys(uses.Required) != want.required || keys(uses.Optional) != want.optional || uses.All != want.all {
			t.Errorf("%s: %+v, want %+v", expr, uses, want)
		}
	}
}
