// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	kcpapisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	kcpapisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	krov1alpha1 "github.com/kubernetes-sigs/kro/api/v1alpha1"
	krometadata "github.com/kubernetes-sigs/kro/pkg/metadata"
	"github.com/kubernetes-sigs/kro/pkg/simpleschema"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/contract"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/conversion"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/offer"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/revision"
)

// plan is what a sound Template asks for.
type plan struct {
	kind string
	gvr  schema.GroupVersionResource
	// graph is the spec of the ResourceGraphDefinition: the Template's, verbatim, and completed
	// with what its development contract asks for.
	graph map[string]any
	// dataPlane is the data-plane contract, completed likewise.
	dataPlane *sandbarv1alpha1.DataPlane
	// schema is the part of the graph that tenants see, parsed.
	schema krov1alpha1.Schema
	// spec is the OpenAPI schema of the instances' spec as tenants see it.
	spec *apiextensionsv1.JSONSchemaProps
	// conversions give instances of former schemas the form of this one.
	conversions *conversion.Set
	// offered is the schema of the spec that tenants have, if it admits more than this one.
	offered *apiextensionsv1.JSONSchemaProps
}

// check finds out, before anything is applied, whether the Template can be what it says. ok is
// false when it cannot; then the condition GraphAccepted says why.
func (r *reconciler) check(ctx context.Context, tmpl *sandbarv1alpha1.Template) (p *plan, ok bool, err error) {
	refuse := func(reason, format string, args ...any) (*plan, bool, error) {
		setCondition(tmpl, sandbarv1alpha1.TemplateGraphAccepted, metav1.ConditionFalse, reason, format, args...)
		return nil, false, nil
	}
	if problems := contract.Check(&tmpl.Spec); len(problems) > 0 {
		return refuse(reasonInvalid, "%s. Correct these fields and apply the Template again; nothing was changed", listed(problems))
	}
	p, err = newPlan(tmpl)
	if err != nil {
		return refuse(reasonInvalid, "%v. Correct it and apply the Template again; nothing was changed", err)
	}
	values, there, err := r.platformValues(ctx)
	if err != nil {
		return nil, false, err
	}
	if there {
		reason, problem, err := missingValues(tmpl, p, values)
		if err != nil {
			return nil, false, err
		}
		if problem != "" {
			return refuse(reason, "%s. Nothing was changed", problem)
		}
	}
	if rival, err := r.rivalOf(ctx, tmpl, p.gvr.Resource); err != nil {
		return nil, false, err
	} else if rival != "" {
		return refuse(reasonKindTaken, "spec.graph.schema.kind: the older Template %s defines the resource %s already; "+
			"choose another kind, or delete that Template", rival, p.gvr.Resource)
	}
	if was := tmpl.Status; was.Resource != "" && (was.Kind != p.kind || was.Version != p.gvr.Version) {
		return refuse(reasonIncompatible, "spec.graph.schema: this Template has published %s %s and cannot become %s %s; "+
			"nothing was changed. Set kind and apiVersion back, and publish the new kind as a Template of its own",
			was.Kind, was.Version, p.kind, p.gvr.Version)
	}
	offered, foreign, err := r.offeredSchema(ctx, tmpl, p)
	if err != nil {
		return nil, false, err
	}
	if foreign != "" {
		return refuse(reasonKindTaken, "spec.graph.schema.kind: the export offers %s already, with the schema %s that this Template did not make; "+
			"choose another kind, or remove that entry from the APIExport", p.gvr.Resource, foreign)
	}
	if changes := incompatibilities(offered, withLifecycle(p.spec)); len(changes) > 0 {
		p.offered = offered
		blocked, err := r.usersLately(ctx, tmpl, p)
		if err != nil {
			return nil, false, fmt.Errorf("looking for instances that the new schema would break: %w", err)
		}
		if blocked != "" {
			return refuse(reasonIncompatible, incompatible, strings.Join(changes, "; "), blocked)
		}
	}
	return p, true, nil
}

// incompatible is what is said of a schema that would take something from tenants, with what changes
// and who is in the way.
const incompatible = "spec.graph.schema.spec admits less than the schema that tenants have: %s; and %s. Nothing was changed and instances go on as before. " +
	"Take these changes back, or give the fields their new form with spec.conversions, or have the tenants change those instances and apply the Template again, " +
	"or publish the new schema as a Template with another kind"

func listed(problems []contract.Problem) string {
	texts := make([]string, 0, len(problems))
	for _, p := range problems {
		texts = append(texts, p.String())
	}
	return strings.Join(texts, "; ")
}

// newPlan parses a graph that has passed contract.Check.
func newPlan(tmpl *sandbarv1alpha1.Template) (*plan, error) {
	p := &plan{dataPlane: contract.Complete(&tmpl.Spec)}
	if err := json.Unmarshal(tmpl.Spec.Graph.Raw, &p.graph); err != nil {
		return nil, fmt.Errorf("spec.graph: %w", err)
	}
	if err := develop(p.graph, &tmpl.Spec); err != nil {
		return nil, err
	}
	raw, err := json.Marshal(p.graph)
	if err != nil {
		return nil, fmt.Errorf("spec.graph: %w", err)
	}
	// Read back, so that its numbers are of the type that the stored graph's are read as.
	p.graph = nil
	if err := json.Unmarshal(raw, &p.graph); err != nil {
		return nil, fmt.Errorf("spec.graph: %w", err)
	}
	var spec krov1alpha1.ResourceGraphDefinitionSpec
	if err := json.Unmarshal(raw, &spec); err != nil {
		return nil, fmt.Errorf("spec.graph is not the spec of a ResourceGraphDefinition: %w", err)
	}
	if spec.Schema == nil {
		return nil, errors.New("spec.graph.schema is missing")
	}
	for i, resource := range spec.Resources {
		if len(resource.ID) > revision.MaxID {
			return nil, fmt.Errorf("spec.graph.resources[%d].id: %q is longer than %d characters", i, resource.ID, revision.MaxID)
		}
	}
	p.schema, p.kind = *spec.Schema, spec.Schema.Kind
	p.gvr = krometadata.GetResourceGraphDefinitionInstanceGVR(spec.Schema.Group, spec.Schema.APIVersion, spec.Schema.Kind)
	if p.spec, err = openAPIOf(spec.Schema); err != nil {
		return nil, err
	}
	p.spec = withWorkloads(withClones(withPodTemplate(p.spec, tmpl.Spec.PodTemplate), tmpl.Spec.Clones), &tmpl.Spec)
	p.conversions, err = conversion.Compile(tmpl.Spec.Conversions)
	return p, err
}

// openAPIOf is the schema of the spec in a graph's schema.
func openAPIOf(schema *krov1alpha1.Schema) (*apiextensionsv1.JSONSchemaProps, error) {
	fields, err := object(schema.Spec)
	if err != nil {
		return nil, fmt.Errorf("spec.graph.schema.spec: %w", err)
	}
	customTypes, err := object(schema.Types)
	if err != nil {
		return nil, fmt.Errorf("spec.graph.schema.types: %w", err)
	}
	made, err := simpleschema.ToOpenAPISpec(fields, customTypes)
	if err != nil {
		return nil, fmt.Errorf("spec.graph.schema.spec: %w", err)
	}
	// As an API server reads it: kro's own has maps that allow no key, and the gate found each key of a map invalid.
	raw, err := json.Marshal(made)
	if err != nil {
		return nil, fmt.Errorf("spec.graph.schema.spec: %w", err)
	}
	spec := &apiextensionsv1.JSONSchemaProps{}
	return spec, json.Unmarshal(raw, spec)
}

func object(raw runtime.RawExtension) (map[string]any, error) {
	fields := map[string]any{}
	if len(raw.Raw) == 0 {
		return fields, nil
	}
	return fields, json.Unmarshal(raw.Raw, &fields)
}

// resourceOf is the resource that a Template's graph asks for; empty when it cannot be told.
func resourceOf(tmpl *sandbarv1alpha1.Template) string {
	var spec krov1alpha1.ResourceGraphDefinitionSpec
	if err := json.Unmarshal(tmpl.Spec.Graph.Raw, &spec); err != nil || spec.Schema == nil || spec.Schema.Kind == "" {
		return ""
	}
	return krometadata.GetResourceGraphDefinitionInstanceGVR(spec.Schema.Group, spec.Schema.APIVersion, spec.Schema.Kind).Resource
}

// rivalOf returns the name of the Template that has the resource already: one that has
// published it, or an older one that asks for it.
func (r *reconciler) rivalOf(ctx context.Context, tmpl *sandbarv1alpha1.Template, resource string) (string, error) {
	if tmpl.Status.Resource == resource {
		return "", nil
	}
	var list sandbarv1alpha1.TemplateList
	if err := r.kcp.List(ctx, &list); err != nil {
		return "", fmt.Errorf("listing Templates: %w", err)
	}
	for i := range list.Items {
		other := &list.Items[i]
		if other.Name == tmpl.Name {
			continue
		}
		if other.Status.Resource == resource || (resourceOf(other) == resource && older(other, tmpl)) {
			return other.Name, nil
		}
	}
	return "", nil
}

func older(a, b *sandbarv1alpha1.Template) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.Name < b.Name
}

// offeredSchema returns the spec schema that the export offers for the Template's resource now,
// nil when there is none. foreign is the name of a schema that another has put there.
func (r *reconciler) offeredSchema(ctx context.Context, tmpl *sandbarv1alpha1.Template, p *plan) (spec *apiextensionsv1.JSONSchemaProps, foreign string, err error) {
	export := &kcpapisv1alpha2.APIExport{}
	if err := r.kcp.Get(ctx, types.NamespacedName{Name: r.offers.ExportName}, export); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, "", nil // the phase that needs it reports it
		}
		return nil, "", fmt.Errorf("reading APIExport %s: %w", r.offers.ExportName, err)
	}
	entry := offer.FindEntry(export, p.gvr.GroupResource())
	if entry == nil {
		return nil, "", nil
	}
	offered := &kcpapisv1alpha1.APIResourceSchema{}
	if err := r.kcp.Get(ctx, types.NamespacedName{Name: entry.Schema}, offered); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, "", nil
		}
		return nil, "", fmt.Errorf("reading APIResourceSchema %s: %w", entry.Schema, err)
	}
	if offered.Labels[placement.LabelTemplate] != tmpl.Name {
		return nil, entry.Schema, nil
	}
	for i := range offered.Spec.Versions {
		version := &offered.Spec.Versions[i]
		if version.Name != p.gvr.Version {
			continue
		}
		whole, err := version.GetSchema()
		if err != nil {
			return nil, "", fmt.Errorf("parsing APIResourceSchema %s: %w", entry.Schema, err)
		}
		if whole == nil {
			return nil, "", nil
		}
		spec := whole.Properties["spec"]
		return &spec, "", nil
	}
	return nil, "", nil
}
