// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// componentPattern keeps the names of development components such that each makes an id of kro,
// a field of the status and the names of a Service and of a claim, one for one.
var componentPattern = regexp.MustCompile(`^[a-z][a-z0-9]{0,31}$`)

// OwnPrefix begins the ids of the resources, and the names of objects, volumes and ports, that
// development adds to a graph.
const OwnPrefix = "sandbar"

// checkDevelopment checks the development contract against the graph.
func checkDevelopment(spec *sandbarv1alpha1.TemplateSpec, schema *graphSchema) []Problem {
	if spec.Development == nil {
		return nil
	}
	var graph struct {
		Resources []any `json:"resources"`
	}
	if err := json.Unmarshal(spec.Graph.Raw, &graph); err != nil {
		return []Problem{{"spec.graph.resources", "must be a list: " + err.Error()}}
	}
	problems := checkMode(schema)
	for i, r := range graph.Resources {
		resource, _ := r.(map[string]any)
		if id, _ := resource["id"].(string); strings.HasPrefix(id, OwnPrefix) {
			problems = append(problems, Problem{
				fmt.Sprintf("spec.graph.resources[%d].id", i),
				"must not begin with " + OwnPrefix + ": such ids are of what development adds to the graph",
			})
		}
	}
	components := spec.Development.Components
	if len(components) == 0 {
		return append(problems, Problem{"spec.development.components", "must have at least one component"})
	}
	owner := map[string]string{} // by the workload's id
	for _, name := range slices.Sorted(maps.Keys(components)) {
		component := components[name]
		c := componentCheck{field: "spec.development.components." + name, component: &component}
		if !componentPattern.MatchString(name) {
			c.add("", "the name of a component must be at most 32 lower-case letters and digits, a letter first")
		}
		c.checkPaths(name, components)
		c.checkRules()
		w, problem := FindWorkload(graph.Resources, name, &component)
		if problem != nil {
			problems = append(problems, append(c.problems, *problem)...)
			continue
		}
		if other, taken := owner[w.ID]; taken {
			c.add(".workload", "is that of component %s already: its pods can run one workspace", other)
		}
		owner[w.ID] = name
		c.checkContainer(w)
		problems = append(problems, c.problems...)
	}
	return append(problems, checkDeclared(spec)...)
}

// checkMode keeps the one switch of the mode the same in all kinds.
func checkMode(schema *graphSchema) []Problem {
	declared, ok := schema.Spec["mode"]
	if text, _ := declared.(string); ok && normalized(text) != normalized(ModeField) {
		return []Problem{{"spec.graph.schema.spec.mode", "must be left out, or be " + ModeField +
			": spec.development adds it, and it means the same in every kind"}}
	}
	return nil
}

// checkDeclared refuses declared verbs that would stand in the way of the runner's: a client
// that develops a component would change something else.
func checkDeclared(spec *sandbarv1alpha1.TemplateSpec) []Problem {
	var problems []Problem
	for name, component := range spec.Development.Components {
		declared := spec.DataPlane.Components[name].Endpoints
		for _, verb := range slices.Sorted(maps.Keys(developmentEndpoints(name, &component))) {
			// A component may have a log and a page of its own in both modes.
			if _, ok := declared[verb]; ok && verb != "log" && verb != ProxyVerb {
				problems = append(problems, Problem{
					"spec.dataPlane.components." + name + ".endpoints." + verb,
					"is the runner's in a component that spec.development lists; give the verb another name",
				})
			}
		}
	}
	if spec.DataPlane.TokenSecretRef != "" {
		return problems
	}
	// Completing the contract gives it a token, which must not reach what was declared without.
	for _, e := range locate(&spec.DataPlane) {
		if e.ServiceRef != "" && e.verb != ProxyVerb {
			problems = append(problems, Problem{
				"spec.dataPlane.tokenSecretRef",
				"must be set: with spec.development the control token is sent to every serviceRef but that of proxy, also to " + e.field,
			})
			break
		}
	}
	return problems
}

// componentCheck collects the problems of one component.
type componentCheck struct {
	field     string
	component *sandbarv1alpha1.DevelopmentComponent
	problems  []Problem
}

func (c *componentCheck) add(field, format string, args ...any) {
	c.problems = append(c.problems, Problem{c.field + field, fmt.Sprintf(format, args...)})
}

// checkPaths checks the directory of the project. One file must belong to one component, or a
// client would not know where to send it.
func (c *componentCheck) checkPaths(name string, components map[string]sandbarv1alpha1.DevelopmentComponent) {
	own := c.component.WorkspacePath
	if own == "" || own != path.Clean(own) || strings.HasPrefix(own, "/") || own == ".." || strings.HasPrefix(own, "../") ||
		strings.ContainsFunc(own, func(r rune) bool { return r < ' ' || r == '\\' }) {
		c.add(".workspacePath", "must be a clean relative path inside the project, such as web, apps/web or \".\", not %q", own)
		return
	}
	for _, other := range slices.Sorted(maps.Keys(components)) {
		if other != name && within(own, components[other].WorkspacePath) {
			c.add(".workspacePath", "%q lies in %q of component %s: a file must belong to one component", own, components[other].WorkspacePath, other)
		}
	}
}

// within tells whether a relative path is another or lies below it.
func within(inner, outer string) bool {
	return outer == "." || inner == outer || strings.HasPrefix(inner, outer+"/")
}

// checkContainer checks what the container's own declaration must have, or leave free.
func (c *componentCheck) checkContainer(w *Workload) {
	spelledOut := func(object map[string]any, names ...string) {
		for _, name := range names {
			if _, isList := object[name].([]any); !isList && object[name] != nil {
				c.add(".workload", "%s of the pods of %q must be spelled out as a list: development adds to it", name, w.ID)
			}
		}
	}
	spelledOut(w.Container, "env", "ports", "volumeMounts")
	spelledOut(w.Pod, "initContainers", "volumes")
	number, names := w.Port(c.component.Port)
	switch {
	case c.component.Port == ControlPort:
		c.add(".port", "%s is the name of the runner's port; give the container's port another name", ControlPort)
	case c.component.Port != "" && number == nil:
		c.add(".port", "the container has no port named %q; it has: %s", c.component.Port, namesOf(names))
	case number == float64(RunnerPort):
		c.add(".port", "%d is the runner's port; let the container serve at another", RunnerPort)
	}
	workingDir := c.component.WorkingDir
	mounts, _ := w.Container["volumeMounts"].([]any)
	for _, m := range mounts {
		mount, _ := m.(map[string]any)
		at, _ := mount["mountPath"].(string)
		if at != "" && (within(at, workingDir) || within(workingDir, at)) {
			c.add(".workingDir", "%q overlaps the mount at %q of the container", workingDir, at)
		}
	}
	env, _ := w.Container["env"].([]any)
	for _, e := range env {
		variable, _ := e.(map[string]any)
		if name, _ := variable["name"].(string); strings.HasPrefix(name, "SANDBAR_") {
			c.add(".workload", "the container sets %s; variables that begin with SANDBAR_ are the runner's", name)
		}
	}
}

func (c *componentCheck) checkRules() {
	if c.component.Reload == nil {
		return
	}
	for i, rule := range c.component.Reload.Rules {
		at := fmt.Sprintf(".reload.rules[%d]", i)
		if len(rule.Paths) == 0 || slices.ContainsFunc(rule.Paths, func(p string) bool {
			return strings.TrimSpace(p) == "" || strings.ContainsAny(p, "\n\r\x00") || p[0] == '!' || p[0] == '#'
		}) {
			c.add(at+".paths", "must be patterns such as package.json, *.py or src/**, one each, without ! and # at the front")
		}
		if rule.Command == "" && rule.Restart != nil && !*rule.Restart {
			c.add(at, "does nothing: it has no command and does not restart")
		}
	}
}
