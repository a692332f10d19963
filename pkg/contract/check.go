// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/sandbar-dev/sandbar/apis/builtin"
	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// Problem is one reason why a Template cannot be what it says.
type Problem struct {
	// Field is the path of the field in the Template, for example
	// "spec.dataPlane.endpoints.log.serviceRef".
	Field string
	// Detail says what is wrong and what would be right.
	Detail string
}

func (p Problem) String() string { return p.Field + ": " + p.Detail }

// SuspendedField is what every graph's spec must say of the field "suspended".
const SuspendedField = "boolean | default=false"

// LifecycleField is the field of every kind's spec that is Sandbar's own (sandbarv1alpha1.Lifecycle).
const LifecycleField = "lifecycle"

// PrewarmField is another one, of the kinds whose tenants write a pod template: whether an instance may take
// a sandbox that a set has ready.
const PrewarmField = "prewarm"

// Values of PrewarmField.
const (
	// PrewarmPrefer, the default: take one, if there is one with the same pod.
	PrewarmPrefer = "Prefer"
	// PrewarmRequire: start with one, or not at all.
	PrewarmRequire = "Require"
	// PrewarmNone: never take one.
	PrewarmNone = "None"
)

// ResizeField is a field of the same kinds: whether a sandbox of a set gets the resources of the template, if it has
// others.
const ResizeField = "resize"

// Values of ResizeField.
const (
	// ResizeRequire, the default: take one only if it gets the template's without a restart.
	ResizeRequire = "Require"
	// ResizeBestEffort: take one in any case.
	ResizeBestEffort = "BestEffort"
	// ResizeKeep: leave the sandbox the resources that it has.
	ResizeKeep = "Keep"
)

// EnvField and EnvFromField are fields of the same kinds: variables of the instance's own.
const (
	EnvField     = "env"
	EnvFromField = "envFrom"
)

// StartTimeoutField is a field of the same kinds: for how long an instance may take to become Ready at first.
const StartTimeoutField = "startTimeout"

// Bounds of StartTimeoutField, and what counts for PrewarmRequire without it.
const (
	StartTimeoutLeast   = time.Second
	StartTimeoutMost    = time.Hour
	StartTimeoutDefault = 5 * time.Minute
)

// ownKinds are the kinds of Sandbar's own; no Template's may be called so.
var ownKinds = func() []string {
	kinds := []string{"Template", "InfrastructureProvider", "Baseline"}
	for _, kind := range builtin.Kinds {
		kinds = append(kinds, kind.Name)
	}
	return kinds
}()

// RevisionField is the field of a kro instance's spec that says which revision of the graph it is
// composed with. A tenant who could write it would choose among them.
const RevisionField = "sandbarRevision"

// StatusVerb is the verb that only the instance's own status may answer.
const StatusVerb = "status"

// componentsSegment stands where a verb would in the path of a component's verb.
const componentsSegment = "components"

// portsSegment stands where a verb would in the path of a port that the caller names.
const portsSegment = "ports"

// graphSchema is what the checks need of a graph; kro checks the rest.
type graphSchema struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Group      string         `json:"group"`
	Scope      string         `json:"scope"`
	Spec       map[string]any `json:"spec"`
	Status     map[string]any `json:"status"`
}

var (
	kindPattern    = regexp.MustCompile(`^[A-Z][a-zA-Z0-9]{0,62}$`)
	versionPattern = regexp.MustCompile(`^v[0-9]+(alpha[0-9]+|beta[0-9]+)?$`)
)

// Check looks for whatever in a Template cannot hold, apart from what kro checks in the graph
// itself. It returns nil when there is nothing; otherwise problems in the order of their fields.
func Check(spec *sandbarv1alpha1.TemplateSpec) []Problem {
	schema, problems := parseGraph(spec.Graph.Raw)
	if schema == nil {
		return problems
	}
	problems = append(problems, checkSchema(schema)...)
	problems = append(problems, checkResources(spec.Graph.Raw)...)
	problems = append(problems, checkDataPlane(&spec.DataPlane, schema.Status)...)
	problems = append(problems, checkDevelopment(spec, schema)...)
	problems = append(problems, checkPodTemplate(spec, schema)...)
	problems = append(problems, checkClones(spec, schema)...)
	problems = append(problems, checkCompound(spec, schema)...)
	problems = append(problems, checkImageChoice(spec, schema)...)
	problems = append(problems, checkConversions(spec)...)
	problems = append(problems, checkControlAuth(spec)...)
	problems = append(problems, checkPodLabels(spec)...)
	slices.SortStableFunc(problems, func(a, b Problem) int { return strings.Compare(a.Field, b.Field) })
	return problems
}

func parseGraph(raw []byte) (*graphSchema, []Problem) {
	var graph struct {
		Schema *graphSchema `json:"schema"`
	}
	if err := json.Unmarshal(raw, &graph); err != nil {
		return nil, []Problem{{"spec.graph", "is not the spec of a ResourceGraphDefinition: " + err.Error()}}
	}
	if graph.Schema == nil {
		return nil, []Problem{{"spec.graph.schema", "is missing; it names the kind and its fields"}}
	}
	return graph.Schema, nil
}

// checkSchema checks the part of the graph that tenants see.
func checkSchema(schema *graphSchema) []Problem {
	var problems []Problem
	add := func(field, format string, args ...any) {
		problems = append(problems, Problem{"spec.graph.schema." + field, fmt.Sprintf(format, args...)})
	}
	if schema.Group != sandbarv1alpha1.GroupName {
		add("group", "must be %s, not %q: the export offers no other group", sandbarv1alpha1.GroupName, schema.Group)
	}
	if !kindPattern.MatchString(schema.Kind) {
		add("kind", "must be a kind such as SandboxRunner, at most 63 letters and digits, not %q", schema.Kind)
	}
	if slices.Contains(ownKinds, schema.Kind) {
		add("kind", "%s is a kind of Sandbar's own; choose another", schema.Kind)
	}
	if !versionPattern.MatchString(schema.APIVersion) {
		add("apiVersion", "must be a version such as v1alpha1, not %q", schema.APIVersion)
	}
	if schema.Scope != "" && schema.Scope != "Namespaced" {
		add("scope", "must be Namespaced, not %q: an instance is placed in a namespace of its own", schema.Scope)
	}
	if declared, _ := schema.Spec["suspended"].(string); normalized(declared) != SuspendedField {
		add("spec.suspended", "must be %q: every instance can be suspended in the same way", SuspendedField)
	}
	for _, name := range []string{LifecycleField, PrewarmField, ResizeField, StartTimeoutField, RevisionField} {
		if _, ok := schema.Spec[name]; ok {
			add("spec."+name, "is Sandbar's, for every kind; give the field another name")
		}
	}
	for _, name := range ReservedStatusFields {
		if _, ok := schema.Status[name]; ok {
			add("status."+name, "is set by Sandbar; give the field another name")
		}
	}
	return problems
}

// ReservedStatusFields are the status fields that Sandbar or kro write themselves. No graph may declare one; what a
// status has beside them is the graph's.
var ReservedStatusFields = []string{"activity", "conditions", "createdBy", "dataPlane", DevelopmentStatus, "observedGeneration", "phase", "start", "state", "suspension"}

// normalized makes one form of the ways to space a kro marker.
func normalized(marker string) string {
	typ, markers, _ := strings.Cut(marker, "|")
	return strings.TrimSpace(typ) + " | " + strings.Join(strings.Fields(markers), " ")
}

// checkRef checks that a path leads to an object {name, namespace} in the graph's status.
func checkRef(field, path string, status map[string]any) []Problem {
	fail := func(format string, args ...any) []Problem {
		return []Problem{{field, fmt.Sprintf(format, args...)}}
	}
	steps := strings.Split(path, ".")
	if len(steps) < 2 || steps[0] != "status" {
		return fail("%q must be a path in the graph's status, such as status.controlServiceRef", path)
	}
	at := status
	for i, step := range steps[1:] {
		value, ok := at[step]
		parent := strings.Join(steps[:i+1], ".")
		if !ok {
			return fail("%s is not a status field of the graph (%s has: %s)", path, parent, fieldsOf(at))
		}
		if at, ok = value.(map[string]any); !ok {
			return fail("%s must be an object with name and namespace in the graph's status", path)
		}
	}
	for _, name := range []string{"name", "namespace"} {
		if _, ok := at[name].(string); !ok {
			return fail("%s must be an object with name and namespace in the graph's status; it has no %s", path, name)
		}
	}
	return nil
}

func fieldsOf(object map[string]any) string {
	if len(object) == 0 {
		return "no fields"
	}
	names := make([]string, 0, len(object))
	for name := range object {
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// checkLabel checks a verb's or a component's name, which is one segment of a path.
func checkLabel(field, what, name string) []Problem {
	if len(validation.IsDNS1123Label(name)) == 0 {
		return nil
	}
	return []Problem{{field, fmt.Sprintf("the name of a %s must be a DNS label: at most 63 lower-case letters, digits and inner hyphens", what)}}
}
