// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package templates

import (
	"encoding/json"
	"strings"
	"testing"

	krocel "github.com/kubernetes-sigs/kro/pkg/cel"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

func statusOf(t *testing.T, tmpl *sandbarv1alpha1.Template) map[string]any {
	t.Helper()
	var graph struct {
		Schema struct {
			Status map[string]any `json:"status"`
		} `json:"schema"`
	}
	if err := json.Unmarshal(tmpl.Spec.Graph.Raw, &graph); err != nil {
		t.Fatal(err)
	}
	return graph.Schema.Status
}

// TestThePreviewSaysWhyItIsNotReady: ready and reason are two expressions, which must agree in every state of the route.
func TestThePreviewSaysWhyItIsNotReady(t *testing.T) {
	type object = map[string]any
	condition := func(kind, status, reason string, generation int64) any {
		return object{"type": kind, "status": status, "reason": reason, "observedGeneration": generation}
	}
	accepted, resolved := condition("Accepted", "True", "Accepted", 2), condition("ResolvedRefs", "True", "ResolvedRefs", 2)
	parents := func(conditions ...any) object { return object{"parents": []any{object{"conditions": conditions}}} }
	preview, _ := statusOf(t, get(t, "sandbox-runner"))["preview"].(object)
	for name, tc := range map[string]struct {
		route     object
		ready     int64
		suspended bool
		want      string
	}{
		"all is well":                             {route: parents(accepted, resolved), ready: 1, want: "Ready"},
		"an unknown condition is false":           {route: parents(accepted, resolved, condition("Else", "False", "No", 2)), ready: 1, want: "Ready"},
		"no controller has seen the route":        {ready: 1, want: "RoutePending"},
		"a controller has said nothing of it":     {route: object{"parents": []any{object{}}}, ready: 1, want: "RoutePending"},
		"a controller has said half of it":        {route: parents(accepted), ready: 1, want: "RoutePending"},
		"a controller has seen a former route":    {route: parents(condition("Accepted", "True", "Accepted", 1), resolved), ready: 1, want: "RoutePending"},
		"a former route was refused":              {route: parents(condition("Accepted", "False", "NotAllowedByListeners", 1), resolved), ready: 1, want: "RoutePending"},
		"the Gateway does not take it":            {route: parents(condition("Accepted", "False", "NotAllowedByListeners", 2), resolved), ready: 1, want: "NotAllowedByListeners"},
		"the Service is not found":                {route: parents(accepted, condition("ResolvedRefs", "False", "BackendNotFound", 2)), ready: 1, want: "BackendNotFound"},
		"one of two controllers does not take it": {route: object{"parents": []any{object{"conditions": []any{accepted, resolved}}, object{"conditions": []any{condition("Accepted", "False", "NoMatchingParent", 2), resolved}}}}, ready: 1, want: "NoMatchingParent"},
		"the app does not answer":                 {route: parents(accepted, resolved), want: "SandboxNotReady"},
		"the sandbox is suspended":                {route: parents(accepted, resolved), suspended: true, want: "Suspended"},
	} {
		t.Run(name, func(t *testing.T) {
			vars := object{
				"schema": object{"spec": object{"suspended": tc.suspended}},
				"runner": object{"status": object{"readyReplicas": tc.ready}},
				"route":  object{"metadata": object{"generation": int64(2)}, "spec": object{"hostnames": []any{"a.gateway.test"}}},
			}
			if tc.route != nil {
				vars["route"].(object)["status"] = tc.route
			}
			if got := evaluate(t, preview["reason"], vars); got != tc.want {
				t.Errorf("the reason is %v, want %s", got, tc.want)
			}
			if got := evaluate(t, preview["ready"], vars); got != (tc.want == "Ready") {
				t.Errorf("ready is %v beside %s", got, tc.want)
			}
			if got := evaluate(t, preview["url"], vars); got != "https://a.gateway.test/" {
				t.Errorf("the URL is %v", got)
			}
		})
	}
}

// evaluate evaluates an expression of a graph by kro's own environment.
func evaluate(t *testing.T, expression any, vars map[string]any) any {
	t.Helper()
	env, err := krocel.DefaultEnvironment(krocel.WithResourceIDs([]string{"schema", "runner", "route"}))
	if err != nil {
		t.Fatal(err)
	}
	text, _ := expression.(string)
	ast, issues := env.Compile(strings.TrimSuffix(strings.TrimPrefix(text, "${"), "}"))
	if issues.Err() != nil {
		t.Fatalf("%s: %v", text, issues.Err())
	}
	program, err := env.Program(ast)
	if err != nil {
		t.Fatal(err)
	}
	value, _, err := program.Eval(vars)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return value.Value()
}
