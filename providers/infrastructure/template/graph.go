// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	krov1alpha1 "github.com/kubernetes-sigs/kro/api/v1alpha1"
	krometadata "github.com/kubernetes-sigs/kro/pkg/metadata"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/revision"
)

// annotationGraphHash tells which graph was applied last, so that a field that the Template no
// longer has is noticed: kro's defaults make the stored graph larger than ours.
const annotationGraphHash = "sandbar.dev/graph-sha256"

// acceptGraph gives the graph to kro and waits until kro has accepted it and serves its CRD. ok
// is false as long as it does not; then the condition says what kro says.
func (r *reconciler) acceptGraph(ctx context.Context, tmpl *sandbarv1alpha1.Template, p *plan) (crd *apiextensionsv1.CustomResourceDefinition, ok bool, err error) {
	report := func(status metav1.ConditionStatus, reason, format string, args ...any) {
		setCondition(tmpl, sandbarv1alpha1.TemplateGraphAccepted, status, reason, format, args...)
	}
	waiting := func() {
		report(metav1.ConditionUnknown, reasonWaitingForKro,
			"kro is checking the graph; if this lasts, look whether kro runs on the runtime cluster")
	}
	rgd, name := &krov1alpha1.ResourceGraphDefinition{}, r.names.Graph(tmpl.Name)
	err = r.runtime.Get(ctx, types.NamespacedName{Name: name}, rgd)
	if client.IgnoreNotFound(err) != nil {
		return nil, false, fmt.Errorf("reading ResourceGraphDefinition %s: %w", name, err)
	}
	exists := err == nil
	if exists && !r.isOurs(rgd, tmpl.Name) {
		report(metav1.ConditionFalse, reasonNameTaken, "the runtime cluster has a ResourceGraphDefinition %s that this provider did not make; "+
			"delete it there, or give this Template another name", name)
		return nil, false, nil
	}
	if !rgd.DeletionTimestamp.IsZero() {
		waiting()
		return nil, false, nil
	}
	ways, reason, problem, err := r.compose(ctx, tmpl, p, rgd)
	if problem != "" {
		report(metav1.ConditionFalse, reason, "%s. Nothing was changed", problem)
	}
	if err != nil || problem != "" {
		return nil, false, err
	}
	if !exists || !slices.ContainsFunc(ways, func(way *unstructured.Unstructured) bool { return !differs(way, rgd) }) {
		refused, err := r.replaceGraph(ctx, tmpl, p, ways, rgd)
		if refused != "" {
			report(metav1.ConditionFalse, reasonRefused, "kro refuses the graph: %s. Nothing was changed; correct spec.graph and apply the Template again", refused)
			return nil, false, err
		}
		waiting()
		return nil, false, err
	}
	switch verdict, message := kroSays(rgd); verdict {
	case metav1.ConditionUnknown:
		waiting()
		return nil, false, nil
	case metav1.ConditionFalse:
		report(metav1.ConditionFalse, reasonRefused, "kro refuses the graph: %s. Correct spec.graph and apply the Template again", message)
		return nil, false, nil
	case metav1.ConditionTrue:
	}
	crd, err = r.establishedCRD(ctx, tmpl.Name, p)
	if err != nil || crd == nil {
		waiting()
		return nil, false, err
	}
	tmpl.Status.RuntimeSchema = fmt.Sprintf("%s/%d", crd.UID, crd.Generation)
	// From here on kro can do nothing with an instance of a former form. Tenants' workspaces get the schema later; until
	// then they refuse the new form, and the instance controller tries again.
	tmpl.Status.Conversions = tmpl.Spec.Conversions
	report(metav1.ConditionTrue, reasonAccepted, "kro serves %s on the runtime cluster", crd.Name)
	return crd, true, nil
}

// isOurs reports whether a graph is of a Template of this provider.
func (r *reconciler) isOurs(graph client.Object, template string) bool {
	return r.names.TemplateOf(graph) == template
}

// desiredGraph is the ResourceGraphDefinition of a Template with a graph.
func desiredGraph(names placement.Names, template string, graph map[string]any) (*unstructured.Unstructured, error) {
	sum, err := sumOf(graph)
	if err != nil {
		return nil, fmt.Errorf("writing the graph of Template %s: %w", template, err)
	}
	rgd := &unstructured.Unstructured{Object: map[string]any{"spec": graph}}
	rgd.SetGroupVersionKind(krov1alpha1.GroupVersion.WithKind("ResourceGraphDefinition"))
	rgd.SetName(names.Graph(template))
	rgd.SetLabels(names.GraphLabels(template))
	rgd.SetAnnotations(map[string]string{annotationGraphHash: sum})
	return rgd, nil
}

func sumOf(graph map[string]any) (string, error) {
	raw, err := json.Marshal(graph)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:]), nil
}

// differs tells whether the stored graph is another than the desired one, be it that the
// Template has changed or that somebody has edited the stored one.
func differs(desired *unstructured.Unstructured, stored *krov1alpha1.ResourceGraphDefinition) bool {
	for _, name := range []string{annotationGraphHash, revision.Annotation} {
		if stored.Annotations[name] != desired.GetAnnotations()[name] {
			return true
		}
	}
	raw, err := json.Marshal(stored.Spec)
	if err != nil {
		return true
	}
	var have map[string]any
	if err := json.Unmarshal(raw, &have); err != nil {
		return true
	}
	return !covers(have, desired.Object["spec"])
}

// covers tells whether have has everything that want has; it may have defaults besides.
func covers(have, want any) bool {
	switch want := want.(type) {
	case map[string]any:
		have, ok := have.(map[string]any)
		if !ok {
			return len(want) == 0 && have == nil
		}
		for key, value := range want {
			if !covers(have[key], value) {
				return false
			}
		}
		return true
	case []any:
		have, ok := have.([]any)
		if !ok || len(have) != len(want) {
			return len(want) == 0 && !ok
		}
		for i := range want {
			if !covers(have[i], want[i]) {
				return false
			}
		}
		return true
	default:
		// Empty values are left out when kro's types are written.
		return reflect.DeepEqual(have, want) || (have == nil && (want == nil || reflect.ValueOf(want).IsZero()))
	}
}

// replaceGraph writes the graph, in the first of the ways that kro would take, unless it would take
// the place of one that tenants use and kro would refuse it.
func (r *reconciler) replaceGraph(ctx context.Context, tmpl *sandbarv1alpha1.Template, p *plan, ways []*unstructured.Unstructured,
	stored *krov1alpha1.ResourceGraphDefinition,
) (refused string, err error) {
	served, err := r.establishedCRD(ctx, tmpl.Name, p)
	if err != nil {
		return "", err
	}
	if served == nil {
		return r.writeGraph(ctx, ways[0], stored)
	}
	// First by itself, so that what is wrong in it is said with the ids that its author wrote.
	if refused, err := r.preflight.check(tmpl.Name, r.ours(p.graph), served); err != nil || refused != "" {
		return refused, err
	}
	for _, way := range ways {
		spec, _ := way.Object["spec"].(map[string]any)
		if refused, err = r.preflight.check(tmpl.Name, spec, served); err != nil {
			return "", err
		}
		if refused == "" {
			return r.writeGraph(ctx, way, stored)
		}
	}
	return "beside the revision that instances have: " + revision.Plain(refused), nil
}

// writeGraph creates the graph where stored is empty, else it changes stored. refused is the API
// server's message when the graph is no valid ResourceGraphDefinition; then nothing was written.
//
// It is no server-side apply: stored comes from a cache, and an apply that trusts a cache which
// lags would take over a graph that somebody else has made in between. A create fails on that
// one, and an update on the resourceVersion.
func (r *reconciler) writeGraph(ctx context.Context, desired *unstructured.Unstructured, stored *krov1alpha1.ResourceGraphDefinition) (refused string, err error) {
	strict := client.FieldValidation(metav1.FieldValidationStrict)
	if stored.UID == "" {
		err = r.runtime.Create(ctx, desired, fieldOwner, strict)
	} else {
		// What kro adds to the metadata, its finalizer above all, stays.
		desired.SetResourceVersion(stored.ResourceVersion)
		desired.SetFinalizers(stored.Finalizers)
		desired.SetLabels(labels.Merge(stored.Labels, desired.GetLabels()))
		desired.SetAnnotations(labels.Merge(stored.Annotations, desired.GetAnnotations()))
		err = r.runtime.Update(ctx, desired, fieldOwner, strict)
	}
	switch {
	case err == nil:
		return "", nil
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return err.Error(), nil
	default:
		return "", fmt.Errorf("writing ResourceGraphDefinition %s: %w", desired.GetName(), err)
	}
}

// kroSays reads kro's verdict on the current generation of the graph.
func kroSays(rgd *krov1alpha1.ResourceGraphDefinition) (metav1.ConditionStatus, string) {
	for _, condition := range []krov1alpha1.ConditionType{
		krov1alpha1.RGDConditionTypeGraphAccepted,
		krov1alpha1.RGDConditionTypeKindReady,
		krov1alpha1.RGDConditionTypeControllerReady,
	} {
		status, message := metav1.ConditionUnknown, ""
		for _, c := range rgd.Status.Conditions {
			if c.Type == condition && c.ObservedGeneration == rgd.Generation {
				status = c.Status
				if c.Message != nil {
					message = *c.Message
				}
			}
		}
		if status != metav1.ConditionTrue {
			return status, revision.Plain(message)
		}
	}
	return metav1.ConditionTrue, ""
}

// establishedCRD returns the CRD that kro made of the graph once it is served, and nil before.
func (r *reconciler) establishedCRD(ctx context.Context, template string, p *plan) (*apiextensionsv1.CustomResourceDefinition, error) {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	name := schema.GroupResource{Group: r.names.Group(), Resource: p.gvr.Resource}.String()
	if err := r.runtime.Get(ctx, types.NamespacedName{Name: name}, crd); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("reading CustomResourceDefinition %s: %w", name, err)
	}
	if crd.Labels[krometadata.ResourceGraphDefinitionNameLabel] != r.names.Graph(template) || !crd.DeletionTimestamp.IsZero() {
		return nil, nil
	}
	for _, c := range crd.Status.Conditions {
		if c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue {
			return crd, nil
		}
	}
	return nil, nil
}
