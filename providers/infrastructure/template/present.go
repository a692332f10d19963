// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/kcp-dev/logicalcluster/v3"
	krov1alpha1 "github.com/kubernetes-sigs/kro/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/metadata"
	"sigs.k8s.io/controller-runtime/pkg/client"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/revision"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/rollout"
)

// present says which revision instances are to have now, and how far that is. It goes by the graph
// that kro has accepted, so that a change of the platform reaches instances also while a change of
// the Template is refused.
func (r *reconciler) present(ctx context.Context, tmpl *sandbarv1alpha1.Template) error {
	rgd, graph := &krov1alpha1.ResourceGraphDefinition{}, r.names.Graph(tmpl.Name)
	err := r.runtime.Get(ctx, types.NamespacedName{Name: graph}, rgd)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading ResourceGraphDefinition %s: %w", graph, err)
	}
	verdict, _ := kroSays(rgd)
	if !r.isOurs(rgd, tmpl.Name) || verdict != metav1.ConditionTrue || tmpl.Status.SchemaName == "" {
		return nil // instances keep what they have
	}
	graphs, err := revision.Stored(rgd)
	if err != nil {
		return err
	}
	if graphs[0].Hash == "" {
		return nil // it is not of this program, and what is to replace it is on its way
	}
	values, ok, err := r.platformValues(ctx)
	if err != nil || !ok {
		return err
	}
	name, used, err := graphs[0].Of(values)
	if err != nil {
		return err
	}
	if err := r.keepValues(ctx, tmpl.Name, name, used); err != nil {
		return err
	}
	r.setRevision(tmpl, name)
	if err := r.reportRollout(ctx, tmpl, graphs); err != nil {
		return err
	}
	return r.collectValues(ctx, tmpl, graphs)
}

// platformValues are the operator's values for graphs, as they were accepted.
func (r *reconciler) platformValues(ctx context.Context) (values map[string]string, ok bool, err error) {
	config := &corev1.ConfigMap{}
	err = r.runtime.Get(ctx, types.NamespacedName{Namespace: r.names.SystemNamespace(), Name: placement.PlatformConfigMap}, config)
	if apierrors.IsNotFound(err) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("reading the platform's values: %w", err)
	}
	return config.Data, true, nil
}

// keepValues makes the ConfigMap with the values of a revision, which never changes. It is there
// before an instance gets the revision.
func (r *reconciler) keepValues(ctx context.Context, template, name string, values map[string]string) error {
	config := &corev1.ConfigMap{}
	key := types.NamespacedName{Namespace: r.names.SystemNamespace(), Name: revision.ConfigMap(name)}
	err := r.runtime.Get(ctx, key, config)
	if err == nil && maps.Equal(config.Data, values) {
		return nil
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading ConfigMap %s: %w", key.Name, err)
	}
	config = &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, Name: key.Name,
			Labels: map[string]string{
				placement.LabelManagedBy: placement.ManagedBy, placement.LabelTemplate: template, placement.LabelRevision: name,
			},
		},
		Data: values, Immutable: new(true),
	}
	if err := r.runtime.Create(ctx, config, fieldOwner); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("writing ConfigMap %s: %w", key.Name, err)
	}
	return nil
}

// setRevision makes a revision the present one. The one that was rolled out last stays known until
// this one is: new instances get it while the rollout is paused.
func (r *reconciler) setRevision(tmpl *sandbarv1alpha1.Template, name string) {
	status := tmpl.Status.Rollout
	if status == nil {
		status = &sandbarv1alpha1.RolloutStatus{}
		tmpl.Status.Rollout = status
	}
	if status.Revision == name {
		return
	}
	former := status.Former
	if status.Phase == sandbarv1alpha1.RolloutComplete {
		former = status.Revision
	}
	*status = sandbarv1alpha1.RolloutStatus{
		Revision: name, Former: former, Since: new(metav1.Now()), Phase: sandbarv1alpha1.RolloutProgressing,
		Total: status.Total, Message: "the instances are still to be looked at",
	}
}

// reportRollout tells the tracker what to roll out and writes down how far that is.
func (r *reconciler) reportRollout(ctx context.Context, tmpl *sandbarv1alpha1.Template, graphs []revision.Graph) error {
	provider := &sandbarv1alpha1.InfrastructureProvider{}
	err := r.kcp.Get(ctx, types.NamespacedName{Name: sandbarv1alpha1.InfrastructureProviderName}, provider)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the InfrastructureProvider: %w", err)
	}
	status := tmpl.Status.Rollout
	news, err := newFields(graphs)
	if err != nil {
		return err
	}
	r.rollouts.Configure(tmpl.Name, rollout.Config{
		Settings: rollout.SettingsOf(tmpl.Spec.Rollout, provider.Spec.Rollout), Target: status.Revision, New: news,
		Provider: logicalcluster.From(tmpl).String(), WasPaused: status.Phase == sandbarv1alpha1.RolloutPaused,
	})
	r.rollouts.Look(tmpl.Name)
	snap, known := r.rollouts.Snapshot(tmpl.Name, status.Revision)
	if !known {
		setCondition(tmpl, sandbarv1alpha1.TemplateRolledOut, metav1.ConditionUnknown, reasonPending, "the instances are still to be looked at")
		return nil
	}
	status.Phase, status.Message = snap.Phase, snap.Message
	status.Total, status.Updated, status.Ready, status.Failed = int64(snap.Total), int64(snap.Updated), int64(snap.Ready), int64(snap.Failed)
	rolledOut := metav1.ConditionFalse
	if snap.Phase == sandbarv1alpha1.RolloutComplete {
		rolledOut, status.Former = metav1.ConditionTrue, ""
	}
	setCondition(tmpl, sandbarv1alpha1.TemplateRolledOut, rolledOut, snap.Reason, "%s", snap.Message)
	return nil
}

// newFields are the fields of the spec that no former graph knows.
func newFields(graphs []revision.Graph) ([]rollout.Field, error) {
	if len(graphs) == 1 {
		return nil, nil
	}
	is, err := specSchema(graphs[0])
	if err != nil {
		return nil, err
	}
	var news []rollout.Field
	for _, g := range graphs[1:] {
		was, err := specSchema(g)
		if err != nil {
			return nil, err
		}
		news = append(news, addedFields(nil, was, is)...)
	}
	return news, nil
}

// collectValues deletes the values of revisions that are not to be had any more: those that this
// Template made, and those of Templates that are gone. Templates with the same resources share them.
func (r *reconciler) collectValues(ctx context.Context, tmpl *sandbarv1alpha1.Template, graphs []revision.Graph) error {
	status := tmpl.Status.Rollout
	if status != nil && (status.Phase != sandbarv1alpha1.RolloutComplete || len(graphs) > 1) {
		return nil
	}
	var configs corev1.ConfigMapList
	err := r.runtime.List(ctx, &configs, client.InNamespace(r.names.SystemNamespace()), client.HasLabels{placement.LabelTemplate, placement.LabelRevision})
	if err != nil {
		return fmt.Errorf("listing the values of revisions: %w", err)
	}
	var templates sandbarv1alpha1.TemplateList
	if err := r.kcp.List(ctx, &templates); err != nil {
		return fmt.Errorf("listing the Templates: %w", err)
	}
	others := slices.DeleteFunc(templates.Items, func(t sandbarv1alpha1.Template) bool { return t.Name == tmpl.Name })
	all := slices.Concat(others, []sandbarv1alpha1.Template{*tmpl}) // its own status is newer here
	for i := range configs.Items {
		config := &configs.Items[i]
		maker := config.Labels[placement.LabelTemplate]
		if slices.ContainsFunc(others, func(t sandbarv1alpha1.Template) bool { return t.Name == maker }) {
			continue // that one collects it
		}
		used, err := r.usesRevision(ctx, config.Labels[placement.LabelRevision], all)
		if err != nil {
			return err
		}
		if used {
			continue
		}
		if err := r.runtime.Delete(ctx, config, client.Preconditions{UID: &config.UID}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting ConfigMap %s: %w", config.Name, err)
		}
	}
	return nil
}

// usesRevision reports whether one of the Templates has the revision, or an instance of theirs. It asks
// the runtime cluster itself for instances: kro composes nothing without the values.
func (r *reconciler) usesRevision(ctx context.Context, name string, templates []sandbarv1alpha1.Template) (bool, error) {
	for i := range templates {
		if status := templates[i].Status.Rollout; status != nil && (name == status.Revision || name == status.Former) {
			return true, nil
		}
	}
	for i := range templates {
		count, err := r.countOnRuntime(ctx, &templates[i], placement.LabelRevision+"="+name)
		if err != nil {
			return false, fmt.Errorf("looking for instances with a former revision: %w", err)
		}
		if count > 0 {
			return true, nil
		}
	}
	return false, nil
}

// countOnRuntime counts the kro instances of a kind that a selector matches, live; at least one is
// all that callers need to know.
func (r *reconciler) countOnRuntime(ctx context.Context, tmpl *sandbarv1alpha1.Template, selector string) (int, error) {
	gvr := schema.GroupVersionResource{Group: r.names.Group(), Version: tmpl.Status.Version, Resource: tmpl.Status.Resource}
	if gvr.Resource == "" {
		return 0, nil // it was never exported
	}
	c, err := metadata.NewForConfig(r.runtimeConfig)
	if err != nil {
		return 0, err
	}
	list, err := c.Resource(gvr).List(ctx, metav1.ListOptions{LabelSelector: selector, Limit: 1})
	if apierrors.IsNotFound(err) {
		return 0, nil // kro does not serve the kind any more
	}
	if err != nil {
		return 0, err
	}
	return len(list.Items), nil
}

// specSchema is the schema of the spec in a graph.
func specSchema(g revision.Graph) (*apiextensionsv1.JSONSchemaProps, error) {
	raw, err := json.Marshal(g.Spec)
	if err != nil {
		return nil, fmt.Errorf("reading a former graph: %w", err)
	}
	var spec krov1alpha1.ResourceGraphDefinitionSpec
	if err := json.Unmarshal(raw, &spec); err != nil {
		return nil, fmt.Errorf("reading a former graph: %w", err)
	}
	return openAPIOf(spec.Schema)
}

// addedFields are the paths of the fields that only the second schema has.
func addedFields(path []string, was, is *apiextensionsv1.JSONSchemaProps) []rollout.Field {
	var added []rollout.Field
	for _, name := range slices.Sorted(maps.Keys(is.Properties)) {
		property := is.Properties[name]
		at := append(slices.Clone(path), name)
		former, known := was.Properties[name]
		switch {
		case !known && name != revision.Field:
			added = append(added, rollout.Field{Path: at, Default: defaultOf(&property)})
		case known && cmp.Or(property.Type, "object") == "object":
			added = append(added, addedFields(at, &former, &property)...)
		}
	}
	return added
}

// defaultOf is the default of a field; nil if it has none.
func defaultOf(property *apiextensionsv1.JSONSchemaProps) any {
	if property.Default == nil {
		return nil
	}
	var value any
	if err := utiljson.Unmarshal(property.Default.Raw, &value); err != nil { // whole numbers as in a spec
		return nil
	}
	return value
}
