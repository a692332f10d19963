// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package devsession

import (
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"

	"github.com/sandbar-dev/sandbar/apis/builtin"
	"github.com/sandbar-dev/sandbar/apis/crds"
)

// judge returns what an API server says of a DevSession, given as the fields beside its kind. old is what it was; empty for a new one.
func judge(t *testing.T, text, old string) string {
	t.Helper()
	raw, err := crds.All.ReadFile(builtin.Of(builtin.DevSession).Definition())
	if err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal(raw, crd); err != nil {
		t.Fatal(err)
	}
	var internal apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(crd.Spec.Versions[0].Schema.OpenAPIV3Schema, &internal, nil); err != nil {
		t.Fatal(err)
	}
	structural, err := structuralschema.NewStructural(&internal)
	if err != nil {
		t.Fatal(err)
	}
	schema, _, err := validation.NewSchemaValidator(&internal)
	if err != nil {
		t.Fatal(err)
	}
	objectOf := func(text string) map[string]any {
		object := map[string]any{}
		if err := yaml.Unmarshal([]byte(text), &object); err != nil {
			t.Fatal(err)
		}
		defaulting.Default(object, structural)
		return object
	}
	object, before := objectOf(text), any(nil)
	if old != "" {
		before = objectOf(old)
	}
	problems := validation.ValidateCustomResource(nil, object, schema)
	rules, _ := cel.NewValidator(structural, true, celconfig.PerCallLimit).Validate(t.Context(), nil, structural, object, before, celconfig.RuntimeCELCostBudget)
	var all []string
	for _, problem := range append(problems, rules...) {
		all = append(all, problem.Error())
	}
	return strings.Join(all, "; ")
}

const (
	leastSpec = `sandboxRef: {name: shop}, workload: web, targetPath: /app`
	fullSpec  = leastSpec + `, containerName: app, image: "a:1", command: [node, server.js], storage: {size: 2Gi, storageClassName: fast, accessModes: [ReadWriteMany]}`
)

func sessionOf(spec string) string { return `{metadata: {name: try}, spec: {` + spec + `}}` }

func TestTheSchemaRefusesWhatCannotBe(t *testing.T) {
	for name, c := range map[string]struct{ object, says string }{
		"the least":           {sessionOf(leastSpec), ""},
		"all fields":          {sessionOf(fullSpec), ""},
		"a size as a number":  {sessionOf(leastSpec + `, storage: {size: 1073741824}`), ""},
		"a deep path":         {sessionOf(strings.Replace(leastSpec, "/app", "/srv/.next/a..b", 1)), ""},
		"the root":            {sessionOf(strings.Replace(leastSpec, "/app", "/", 1)), "spec.targetPath"},
		"a path that climbs":  {sessionOf(strings.Replace(leastSpec, "/app", "/app/../x", 1)), "must be a clean path"},
		"a path to itself":    {sessionOf(strings.Replace(leastSpec, "/app", "/./x", 1)), "must be a clean path"},
		"a relative path":     {sessionOf(strings.Replace(leastSpec, "/app", "app", 1)), "spec.targetPath"},
		"two slashes":         {sessionOf(strings.Replace(leastSpec, "/app", "//app", 1)), "spec.targetPath"},
		"a slash at the end":  {sessionOf(strings.Replace(leastSpec, "/app", "/app/", 1)), "spec.targetPath"},
		"a long path":         {sessionOf(strings.Replace(leastSpec, "/app", "/"+strings.Repeat("a", 256), 1)), "256"},
		"no Sandbox":          {sessionOf(`workload: web, targetPath: /app`), "spec.sandboxRef"},
		"a workload's name":   {sessionOf(strings.Replace(leastSpec, "web", "We_b", 1)), "spec.workload"},
		"an empty command":    {sessionOf(leastSpec + `, command: []`), "spec.command"},
		"65 words":            {sessionOf(leastSpec + `, command: [` + strings.Repeat("a, ", 65) + `]`), "64"},
		"a way of access":     {sessionOf(leastSpec + `, storage: {accessModes: [ReadOnlyMany]}`), "accessModes"},
		"a name with a dot":   {`{metadata: {name: a.b}, spec: {` + leastSpec + `}}`, "the name of a DevSession"},
		"a name that is long": {`{metadata: {name: ` + strings.Repeat("a", 51) + `}, spec: {` + leastSpec + `}}`, "at most 50 characters"},
		"a name of a digit":   {`{metadata: {name: "1a"}, spec: {` + leastSpec + `}}`, "begin with a letter"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := judge(t, c.object, ""); (got == "") != (c.says == "") || !strings.Contains(got, c.says) {
				t.Errorf("it says %q, want %q", got, c.says)
			}
		})
	}
}

// A field that changed would leave what was made by the former one.
func TestASessionDoesNotChangeButForItsImage(t *testing.T) {
	for name, c := range map[string]struct{ before, after, says string }{
		"the same":            {fullSpec, fullSpec, ""},
		"the image":           {fullSpec, strings.Replace(fullSpec, "a:1", "a:2", 1), ""},
		"an image at all":     {leastSpec, leastSpec + `, image: "a:1"`, ""},
		"the Sandbox":         {leastSpec, strings.Replace(leastSpec, "shop", "other", 1), "spec.sandboxRef"},
		"the workload":        {leastSpec, strings.Replace(leastSpec, "web", "api", 1), "spec.workload"},
		"the path":            {leastSpec, strings.Replace(leastSpec, "/app", "/srv", 1), "spec.targetPath"},
		"the container":       {fullSpec, strings.Replace(fullSpec, "containerName: app", "containerName: db", 1), "containerName does not change"},
		"a container at all":  {leastSpec, leastSpec + `, containerName: app`, "containerName does not change"},
		"the command":         {fullSpec, strings.Replace(fullSpec, "server.js", "other.js", 1), "command does not change"},
		"no command any more": {fullSpec, strings.Replace(fullSpec, "command: [node, server.js], ", "", 1), "command does not change"},
		"the size":            {fullSpec, strings.Replace(fullSpec, "2Gi", "3Gi", 1), "spec.storage"},
		"the class":           {fullSpec, strings.Replace(fullSpec, "fast", "slow", 1), "spec.storage"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := judge(t, sessionOf(c.after), sessionOf(c.before)); (got == "") != (c.says == "") || !strings.Contains(got, c.says) {
				t.Errorf("it says %q, want %q", got, c.says)
			}
		})
	}
}
