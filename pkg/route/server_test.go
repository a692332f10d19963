// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package route

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"

	"github.com/sandbar-dev/sandbar/apis/crds"
)

// server judges objects of a kind as an API server with its definition does.
type server struct {
	structural *structuralschema.Structural
	schema     validation.SchemaValidator
	rules      *cel.Validator
}

// serverOf is for a version of a definition.
func serverOf(definition []byte, version string) (*server, error) {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal(definition, crd); err != nil {
		return nil, err
	}
	s := &server{}
	for _, v := range crd.Spec.Versions {
		if v.Name != version {
			continue
		}
		var internal apiextensions.JSONSchemaProps
		err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(v.Schema.OpenAPIV3Schema, &internal, nil)
		if err != nil {
			return nil, err
		}
		if s.structural, err = structuralschema.NewStructural(&internal); err != nil {
			return nil, err
		}
		if s.schema, _, err = validation.NewSchemaValidator(&internal); err != nil {
			return nil, err
		}
		s.rules = cel.NewValidator(s.structural, true, celconfig.PerCallLimit)
	}
	return s, nil
}

// judge returns what is wrong with an object, after its defaults are set. A field that the definition does not have is wrong,
// as it is for server-side apply. old is what the object was, nil for a new one.
func (s *server) judge(object, old map[string]any) (problems []string) {
	for _, field := range pruning.PruneWithOptions(copied(object), s.structural, true, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}) {
		problems = append(problems, "unknown field "+field)
	}
	defaulting.Default(object, s.structural)
	found := validation.ValidateCustomResource(nil, object, s.schema)
	found = append(found, listtype.ValidateListSetsAndMaps(nil, s.structural, object)...)
	var before any
	if old != nil {
		before = old
	}
	rules, _ := s.rules.Validate(context.Background(), nil, s.structural, object, before, celconfig.RuntimeCELCostBudget)
	for _, problem := range append(found, rules...) {
		problems = append(problems, problem.Error())
	}
	return problems
}

func copied(object map[string]any) map[string]any {
	raw, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	var again map[string]any
	if err := utiljson.Unmarshal(raw, &again); err != nil { // with whole numbers
		panic(err)
	}
	return again
}

// sandboxRoutes is the API server of SandboxRoutes.
var sandboxRoutes = sync.OnceValues(func() (*server, error) {
	definition, err := crds.All.ReadFile("sandbar.dev_sandboxroutes.yaml")
	if err != nil {
		return nil, err
	}
	return serverOf(definition, "v1alpha1")
})

// gatewayAPI are the servers of a release of the Gateway API.
type gatewayAPI struct{ httpRoutes, grants *server }

// stackGatewayAPI is the release that the local stack installs.
var stackGatewayAPI = sync.OnceValues(func() (*gatewayAPI, error) { return gatewayAPIOf("") })

// gatewayAPIOf reads a release from its module, which the local stack takes its definitions from, too; empty means the
// stack's. Go downloads it once.
func gatewayAPIOf(version string) (*gatewayAPI, error) {
	module := "sigs.k8s.io/gateway-api"
	if version != "" {
		module += "@" + version
	}
	download := exec.Command("go", "mod", "download", "-json", module)
	download.Dir, download.Stderr = filepath.Join("..", "..", "hack", "gatewayapi"), os.Stderr
	download.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly")
	out, err := download.Output()
	if err != nil {
		return nil, err
	}
	var downloaded struct{ Dir string }
	if err := json.Unmarshal(out, &downloaded); err != nil {
		return nil, err
	}
	read := func(plural, version string) (*server, error) {
		definition, err := os.ReadFile(filepath.Join(downloaded.Dir, "config", "crd", "standard", GatewayGroup+"_"+plural+".yaml"))
		if err != nil {
			return nil, err
		}
		return serverOf(definition, version)
	}
	api := &gatewayAPI{}
	if api.httpRoutes, err = read("httproutes", HTTPRouteGVK.Version); err != nil {
		return nil, err
	}
	api.grants, err = read("referencegrants", ReferenceGrantGVK.Version)
	return api, err
}

// take fails the test if an API server of the release would refuse what was rendered.
func (g *gatewayAPI) take(t testing.TB, r *Rendered) {
	t.Helper()
	for _, route := range r.Routes {
		object := copied(route.Object)
		for _, problem := range g.httpRoutes.judge(object, nil) {
			t.Errorf("%s is refused: %s", route.GetName(), problem)
		}
		// A default that the server sets is a difference that the next look at the route would find.
		if before, after := asText(route.Object), asText(object); before != after {
			t.Errorf("%s gets defaults:\n%s\nwas\n%s", route.GetName(), after, before)
		}
	}
	grants, err := Grants(testPlacement, r.Granted, testLabels)
	if err != nil {
		t.Error(err)
	}
	for _, grant := range grants {
		for _, problem := range g.grants.judge(copied(grant.Object), nil) {
			t.Errorf("%s is refused: %s", grant.GetName(), problem)
		}
	}
}

func asText(object map[string]any) string {
	raw, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

func readFile(t testing.TB, file string) []byte {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return content
}
