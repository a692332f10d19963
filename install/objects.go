// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"text/template"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/sandbar-dev/sandbar/apis/builtin"
	"github.com/sandbar-dev/sandbar/apis/crds"
	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/platform"
	"github.com/sandbar-dev/sandbar/templates"
)

//go:embed manifests
var manifests embed.FS

// kcpObjects are the objects of the provider workspace, in the order of applying.
func kcpObjects(opts Options, gateway bool) ([]*unstructured.Unstructured, error) {
	objects, err := read(crds.Files, "*.yaml", nil)
	if err != nil {
		return nil, err
	}
	rest, err := read(manifests, "manifests/kcp/*.yaml", leftOpen(opts))
	if err != nil {
		return nil, err
	}
	policies, err := immutablePolicies(builtin.Kinds)
	if err != nil {
		return nil, err
	}
	rest = append(rest, policies...)
	if err := giveRules(rest, opts, placement.Names{}); err != nil {
		return nil, err
	}
	for _, object := range rest {
		if object.GetKind() == "APIExport" {
			annotate(object, platform.ExportAnnotations(&opts.Provider))
		}
	}
	objects = append(objects, rest...)
	provider, err := convert(&sandbarv1alpha1.InfrastructureProvider{Spec: opts.Provider}, "InfrastructureProvider", sandbarv1alpha1.InfrastructureProviderName)
	if err != nil {
		return nil, err
	}
	objects = append(objects, provider)
	for _, name := range opts.Templates {
		tmpl, err := templates.Get(name)
		if err != nil {
			return nil, err
		}
		object, err := templateObject(tmpl, gateway, opts.Progress)
		if err != nil {
			return nil, err
		}
		objects = append(objects, object)
	}
	return objects, nil
}

// templateObject leaves out of a Template what the runtime cluster cannot serve, and says so.
func templateObject(tmpl *sandbarv1alpha1.Template, gateway bool, progress func(string)) (*unstructured.Unstructured, error) {
	if !gateway {
		bare, dropped, err := templates.WithoutGateway(tmpl)
		if err != nil {
			return nil, err
		}
		if len(dropped) > 0 {
			tmpl = bare
			progress(fmt.Sprintf("Template %s goes without %v: the runtime cluster does not serve gateway.networking.k8s.io; "+
				"previews work through the verb proxy. Install the Gateway API and run init again to add routes", tmpl.Name, dropped))
		}
	}
	return convert(tmpl, "Template", tmpl.Name)
}

// convert makes an object to apply: without status and without what the server sets.
func convert(obj any, kind, name string) (*unstructured.Unstructured, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, fmt.Errorf("converting %s %s: %w", kind, name, err)
	}
	out := &unstructured.Unstructured{Object: map[string]any{"spec": fields["spec"]}}
	out.SetGroupVersionKind(sandbarv1alpha1.GroupVersion.WithKind(kind))
	out.SetName(name)
	return out, nil
}

// runtimeObjects are the objects of the runtime cluster, in the order of applying. level is the
// pod security level that placements may enforce, and those above it. The ConfigMap
// sandbar-platform is not among them: the controllers write it, when they have checked that no
// change of the InfrastructureProvider breaks instances that run.
func runtimeObjects(opts Options, level string) ([]*unstructured.Unstructured, error) {
	objects, err := read(manifests, "manifests/runtime/*.yaml", admissionValues(opts, level))
	if err != nil {
		return nil, err
	}
	if opts.KroServiceAccount == "" {
		// The role of that name stays: it is what kro may, and the policy where.
		objects = slices.DeleteFunc(objects, isKroPolicy)
	}
	if err := giveRules(objects, opts, opts.names); err != nil {
		return nil, err
	}
	return objects, nil
}

func annotate(object *unstructured.Unstructured, annotations map[string]string) {
	all := object.GetAnnotations()
	if all == nil {
		all = map[string]string{}
	}
	for key, value := range annotations {
		if value != "" {
			all[key] = value
		}
	}
	object.SetAnnotations(all)
}

// leftOpen are the names that manifests for kcp leave open: that of the export, and the provider's logical cluster.
func leftOpen(opts Options) map[string]string {
	return map[string]string{"Export": opts.ExportName, "Provider": opts.provider}
}

// read parses the YAML files that a pattern matches, in the order of their names. Values, if
// any, are filled in first; they are names that Options.complete has checked.
func read(files fs.FS, pattern string, values map[string]string) ([]*unstructured.Unstructured, error) {
	paths, err := fs.Glob(files, pattern)
	if err != nil {
		return nil, fmt.Errorf("reading the manifests: %w", err)
	}
	var objects []*unstructured.Unstructured
	for _, path := range paths {
		raw, err := fs.ReadFile(files, path)
		if err != nil {
			return nil, fmt.Errorf("reading the manifests: %w", err)
		}
		if values != nil {
			if raw, err = fill(path, raw, values); err != nil {
				return nil, err
			}
		}
		some, err := parse(path, raw)
		if err != nil {
			return nil, err
		}
		objects = append(objects, some...)
	}
	return objects, nil
}

func fill(path string, raw []byte, values map[string]string) ([]byte, error) {
	tmpl, err := template.New(path).Option("missingkey=error").Parse(string(raw))
	if err != nil {
		return nil, fmt.Errorf("parsing %s: %w", path, err)
	}
	var out bytes.Buffer
	if err := tmpl.Execute(&out, values); err != nil {
		return nil, fmt.Errorf("filling in %s: %w", path, err)
	}
	return out.Bytes(), nil
}

func parse(path string, raw []byte) ([]*unstructured.Unstructured, error) {
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(raw), len(raw))
	var objects []*unstructured.Unstructured
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("parsing %s: %w", path, err)
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}
