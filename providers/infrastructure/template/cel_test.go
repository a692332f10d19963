// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	krocel "github.com/kubernetes-sigs/kro/pkg/cel"
	"github.com/kubernetes-sigs/kro/pkg/cel/conversion"
	"github.com/kubernetes-sigs/kro/pkg/graph/parser"

	"github.com/sandbar-dev/sandbar/providers/infrastructure/expression"
)

// evaluate does with the text of a field what kro does: finds the expression, which must be all
// of it, and evaluates it for an instance in development mode.
func evaluate(t testing.TB, field string) any {
	t.Helper()
	standalone, err := parser.IsStandaloneExpression(field)
	if err != nil || !standalone {
		t.Fatalf("kro does not take it for one expression: %v: %s", err, field)
	}
	env, err := krocel.DefaultEnvironment(krocel.WithResourceIDs([]string{"schema"}))
	if err != nil {
		t.Fatal(err)
	}
	ast, issues := env.Compile(strings.TrimSuffix(strings.TrimPrefix(field, "${"), "}"))
	if issues.Err() != nil {
		t.Fatalf("%v: %s", issues.Err(), field)
	}
	program, err := env.Program(ast)
	if err != nil {
		t.Fatal(err)
	}
	value, _, err := program.Eval(map[string]any{"schema": map[string]any{"spec": map[string]any{"mode": "development", "n": 2, "s": "ess"}}})
	if err != nil {
		t.Fatalf("%v: %s", err, field)
	}
	native, err := conversion.GoNativeType(value)
	if err != nil {
		t.Fatal(err)
	}
	return native
}

func TestValuesOfAGraphSurviveAsExpressions(t *testing.T) {
	for name, tc := range map[string]struct{ value, want any }{
		"nothing":                       {nil, nil},
		"a text":                        {"text", "text"},
		"an empty text":                 {"", ""},
		"quotes, newlines, backslashes": {"a \"b\" 'c'\n\t\\n \\\"", "a \"b\" 'c'\n\t\\n \\\""},
		"dollar signs and braces":       {"$HOME $$ $(x) } { ${ $", "$HOME $$ $(x) } { ${ $"},
		"other writing":                 {"ü€\U0001F600\u0000\u007f\u2028", "ü€\U0001F600\u0000\u007f\u2028"},
		"an expression":                 {"${schema.spec.n}", int64(2)},
		"expressions in a text":         {"<${schema.spec.s}> $ <${schema.spec.s + \"}\"}>", "<ess> $ <ess}>"},
		"numbers and bools":             {[]any{float64(7070), 0.5, true, 3, float64(-1)}, []any{int64(7070), 0.5, true, int64(3), int64(-1)}},
		"lists and objects of all kinds": {
			map[string]any{"a $": []any{"x", float64(1), nil, map[string]any{}}, "b": "${schema.spec.s}"},
			map[string]any{"a $": []any{"x", int64(1), nil, map[string]any{}}, "b": "ess"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := &either{}
			object := map[string]any{"field": "production"}
			e.set(object, "field", tc.value)
			if e.err != nil {
				t.Fatal(e.err)
			}
			if diff := cmp.Diff(tc.want, evaluate(t, object["field"].(string))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzVerbatim: whatever a Template's author writes as a command, kro makes of it what Kubernetes
// turns back into the same text, and finds no expression in it.
func FuzzVerbatim(f *testing.F) {
	for _, text := range []string{
		"npm run dev", "echo \"$HOME\" '${schema.spec.s}' $(PORT) $$ $$$(x)\n", "${", "}", "\\", "\"", "$\\$", "\u2028ü\x00", "a${b}c\"${\"",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		raw, err := json.Marshal(text) // a Template arrives as JSON, which is UTF-8
		if err != nil || json.Unmarshal(raw, &text) != nil {
			t.Skip()
		}
		value, err := expression.Of([]any{verbatim(text)})
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(value, "$") {
			t.Errorf("a dollar sign is left for kro to find: %s", value)
		}
		got := evaluate(t, expression.Wrap("schema.spec.mode == \"development\" ? dyn("+value+") : dyn(null)"))
		if diff := cmp.Diff([]any{text}, []any{expandedByKubernetes(got.([]any)[0].(string))}); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// expandedByKubernetes does with a variable's value what the kubelet does when no variable that
// the value refers to is known (core/v1 EnvVar.value: $$ becomes $, and $(NAME) stays).
func expandedByKubernetes(value string) string {
	var out strings.Builder
	for i := 0; i < len(value); i++ {
		out.WriteByte(value[i])
		if value[i] == '$' && i+1 < len(value) && value[i+1] == '$' {
			i++
		}
	}
	return out.String()
}
