// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	kcpapisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	krov1alpha1 "github.com/kubernetes-sigs/kro/api/v1alpha1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/contract"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/offer"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/revision"
)

const (
	// category is what `kubectl get sandbar` lists in a tenant's workspace.
	category = "sandbar"
	// kroRuleMessage is what kro says of any broken rule.
	kroRuleMessage = "validation failed"
)

// publishSchema makes the kind's schema as tenants see it. Schemas are immutable in kcp and
// named by content here, so an unchanged one exists already.
func (r *reconciler) publishSchema(ctx context.Context, tmpl *sandbarv1alpha1.Template, p *plan, crd *apiextensionsv1.CustomResourceDefinition) (name string, ok bool, err error) {
	if crd, err = r.ownCRD(ctx, tmpl, p, crd); err != nil {
		return "", false, err
	}
	schema, err := buildSchema(tmpl, p, crd)
	if err != nil {
		return "", false, err
	}
	err = r.offers.Publish(ctx, schema)
	if refused := new(apierrors.StatusError); apierrors.IsInvalid(err) && errors.As(err, &refused) {
		setCondition(tmpl, sandbarv1alpha1.TemplateSchemaPublished, metav1.ConditionFalse, reasonSchemaRefused,
			"kcp refuses the schema: %v. Correct spec.graph.schema and apply the Template again", refused)
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	setCondition(tmpl, sandbarv1alpha1.TemplateSchemaPublished, metav1.ConditionTrue, reasonPublished, "the schema is %s", schema.Name)
	return schema.Name, true, nil
}

// ownCRD is the CRD as kro would make it of the Template's own graph: while instances have former
// revisions, the one that kro serves has their status fields too.
func (r *reconciler) ownCRD(ctx context.Context, tmpl *sandbarv1alpha1.Template, p *plan, served *apiextensionsv1.CustomResourceDefinition) (*apiextensionsv1.CustomResourceDefinition, error) {
	rgd := &krov1alpha1.ResourceGraphDefinition{}
	if err := r.runtime.Get(ctx, types.NamespacedName{Name: r.names.Graph(tmpl.Name)}, rgd); err != nil {
		return nil, fmt.Errorf("reading ResourceGraphDefinition %s: %w", r.names.Graph(tmpl.Name), err)
	}
	graphs, err := revision.Stored(rgd)
	if err != nil {
		return nil, err
	}
	if len(graphs) == 1 {
		return served, nil
	}
	sum, err := sumOf(p.graph)
	if err != nil {
		return nil, fmt.Errorf("writing the graph of Template %s: %w", tmpl.Name, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if own := r.own[tmpl.Name]; own != nil && own.Annotations[annotationGraphHash] == sum {
		return own, nil
	}
	own, refused, err := r.preflight.compile(tmpl.Name, r.ours(p.graph), served)
	if err != nil {
		return nil, err
	}
	if own == nil || refused != "" {
		return served, nil // the cluster's kro is not the one that we know
	}
	own.Annotations = map[string]string{annotationGraphHash: sum}
	r.own[tmpl.Name] = own
	return own, nil
}

// buildSchema makes the schema of the kind out of the CRD that kro made. The spec is the graph's
// with Sandbar's lifecycle. The status is the graph's without what tenants must not see, and Sandbar's own fields.
func buildSchema(tmpl *sandbarv1alpha1.Template, p *plan, crd *apiextensionsv1.CustomResourceDefinition) (*kcpapisv1alpha1.APIResourceSchema, error) {
	crd = crd.DeepCopy()
	at := slices.IndexFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == p.gvr.Version })
	if at < 0 || crd.Spec.Versions[at].Schema == nil || crd.Spec.Versions[at].Schema.OpenAPIV3Schema == nil {
		return nil, fmt.Errorf("CustomResourceDefinition %s has no schema of version %s", crd.Name, p.gvr.Version)
	}
	version := crd.Spec.Versions[at]
	root := version.Schema.OpenAPIV3Schema
	// Not kro's: that has the field for the revision, and those of former revisions.
	root.Properties["spec"] = *withLifecycle(p.spec)
	nameRules(root)
	root.Properties["status"] = withRolledUp(withCopies(publicStatus(root.Properties["status"], contract.RefPaths(p.dataPlane)), tmpl.Spec.Clones), tmpl.Spec.Compound)
	explain(root, crd.Spec.Names.Kind)
	demandSpec(root, tmpl.Spec.Compound != nil)
	boundName(root)
	version.Served, version.Storage = true, true
	version.Subresources = &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}}
	version.AdditionalPrinterColumns = append(printerColumns(tmpl.Spec.PodTemplate != nil), p.schema.AdditionalPrinterColumns...)
	crd.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{version}
	crd.Spec.Conversion = nil
	// kro's kind is of the provider's own group, and what tenants get is of the one that all providers offer.
	crd.Name, crd.Spec.Group = p.gvr.GroupResource().String(), p.gvr.Group
	crd.Spec.Names.Categories = categories(crd.Spec.Names.Categories)

	return offer.Schema(crd, map[string]string{placement.LabelManagedBy: placement.ManagedBy, placement.LabelTemplate: tmpl.Name})
}

// nameRules has a refusal say which rule was broken. kro gives every rule of a simple schema the
// same message.
func nameRules(schema *apiextensionsv1.JSONSchemaProps) {
	for i, rule := range schema.XValidations {
		if rule.Message == kroRuleMessage {
			schema.XValidations[i].Message = "must satisfy " + strings.Join(strings.Fields(rule.Rule), " ")
		}
	}
	for _, property := range schema.Properties {
		nameRules(&property)
	}
	if schema.Items != nil && schema.Items.Schema != nil {
		nameRules(schema.Items.Schema)
	}
	if schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil {
		nameRules(schema.AdditionalProperties.Schema)
	}
}

// demandSpec closes a gap: an object without a spec would be admitted, without the defaults and
// without the required fields of a spec. oneOfTwo: one of two fields is required, as a rule of the spec
// says; an empty spec would break it, and cannot be the default.
func demandSpec(root *apiextensionsv1.JSONSchemaProps, oneOfTwo bool) {
	spec := root.Properties["spec"]
	if len(spec.Required) > 0 || oneOfTwo {
		root.Required = []string{"spec"}
		return
	}
	spec.Default = &apiextensionsv1.JSON{Raw: []byte("{}")}
	root.Properties["spec"] = spec
}

// boundName refuses a name that kro could not put into the labels of what it makes: said later, it
// would be said of objects that tenants do not see. Only at creation, so that one from before this
// rule can still be changed and deleted.
func boundName(root *apiextensionsv1.JSONSchemaProps) {
	root.XValidations = append(root.XValidations, apiextensionsv1.ValidationRule{
		Rule:            fmt.Sprintf("oldSelf.hasValue() || size(self.metadata.name) <= %d", validation.LabelValueMaxLength),
		Message:         fmt.Sprintf("metadata.name must be at most %d characters long", validation.LabelValueMaxLength),
		OptionalOldSelf: new(true),
	})
}

func categories(own []string) []string {
	if slices.Contains(own, category) {
		return own
	}
	return append(slices.Clone(own), category)
}

// publicStatus removes from the graph's status what is kro's and what the contract refers to,
// and adds Sandbar's fields.
func publicStatus(status apiextensionsv1.JSONSchemaProps, private []string) apiextensionsv1.JSONSchemaProps {
	properties := map[string]apiextensionsv1.JSONSchemaProps{}
	for name, property := range status.Properties {
		properties[name] = *property.DeepCopy()
	}
	for _, path := range private {
		removePath(properties, strings.Split(path, ".")[1:])
	}
	delete(properties, "state")
	maps.Copy(properties, instanceStatusProperties())
	return apiextensionsv1.JSONSchemaProps{Type: "object", Properties: properties}
}

// removePath removes a property, and the objects around it that are empty without it.
func removePath(properties map[string]apiextensionsv1.JSONSchemaProps, path []string) {
	property, ok := properties[path[0]]
	if !ok {
		return
	}
	if len(path) > 1 {
		removePath(property.Properties, path[1:])
		if len(property.Properties) > 0 {
			return
		}
	}
	delete(properties, path[0])
}

// collectSchemas deletes the schemas of this Template that are not offered any more.
func (r *reconciler) collectSchemas(ctx context.Context, tmpl *sandbarv1alpha1.Template, keep string) error {
	schemas, err := r.schemasOf(ctx, tmpl.Name)
	if err != nil {
		return err
	}
	for i := range schemas {
		if schemas[i].Name == keep {
			continue
		}
		if err := r.kcp.Delete(ctx, &schemas[i]); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting APIResourceSchema %s: %w", schemas[i].Name, err)
		}
	}
	return nil
}

func (r *reconciler) schemasOf(ctx context.Context, template string) ([]kcpapisv1alpha1.APIResourceSchema, error) {
	var list kcpapisv1alpha1.APIResourceSchemaList
	err := r.kcp.List(ctx, &list, client.MatchingLabels{
		placement.LabelManagedBy: placement.ManagedBy, placement.LabelTemplate: template,
	})
	if err != nil {
		return nil, fmt.Errorf("listing the APIResourceSchemas of Template %s: %w", template, err)
	}
	return list.Items, nil
}
