// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/offer"
)

const (
	// bindingsSettle is how long bindings may take to get the new schema until tenants may write
	// again all the same.
	bindingsSettle = 15 * time.Second
	// lookAgain is how often it is looked whether they have.
	lookAgain = 500 * time.Millisecond
	// lookEvery is how long the answer holds that somebody is in the way.
	lookEvery = 15 * time.Second
	// namedWorkspaces is how many workspaces a message names.
	namedWorkspaces = 3
)

// users says which instances would lose something under the new schema, or could not be changed any more, also when
// they are converted; empty if none. It trusts complete, live answers only.
func (r *reconciler) users(ctx context.Context, tmpl *sandbarv1alpha1.Template, p *plan) (string, error) {
	fitting, err := newFitting(p.offered, withLifecycle(p.spec), p.conversions)
	if err != nil {
		return "", err
	}
	placements, err := r.placements(ctx, tmpl.Name)
	if err != nil {
		return "", err
	}
	problems, workspaces := map[string]int{}, map[string]bool{}
	hit := 0
	err = r.eachInstance(ctx, p.gvr, func(obj *unstructured.Unstructured) {
		owner := placement.Owner{Cluster: logicalcluster.From(obj).String(), UID: obj.GetUID()}
		path := placements[owner]
		delete(placements, owner)
		spec, _, _ := unstructured.NestedMap(obj.Object, "spec")
		found := fitting.problems(ctx, spec)
		if len(found) == 0 {
			return
		}
		hit++
		for _, problem := range found {
			problems[problem]++
		}
		if path == "" {
			path = owner.Cluster
		}
		workspaces[path] = true
	})
	if err != nil {
		return "", err
	}
	if len(placements) > 0 {
		return fmt.Sprintf("there are placements of %d instances that kcp has not listed, so it is not known what those say", len(placements)), nil
	}
	if hit == 0 {
		return "", nil
	}
	var words []string
	for _, problem := range slices.Sorted(maps.Keys(problems)) {
		words = append(words, fmt.Sprintf("%s in %d", problem, problems[problem]))
	}
	names := slices.Sorted(maps.Keys(workspaces))
	text := strings.Join(names[:min(len(names), namedWorkspaces)], ", ")
	if more := len(names) - namedWorkspaces; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Sprintf("%d instances in %d workspaces (%s) are in the way: %s", hit, len(names), text, strings.Join(words, ", ")), nil
}

// placements are the instances that have a placement, with the paths of their workspaces.
func (r *reconciler) placements(ctx context.Context, template string) (map[placement.Owner]string, error) {
	var list corev1.NamespaceList
	err := r.runtime.List(ctx, &list, client.MatchingLabels{placement.LabelTemplate: template}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing the placements of Template %s: %w", template, err)
	}
	found := map[placement.Owner]string{}
	for i := range list.Items {
		ns := &list.Items[i]
		if p, ok := placement.Of(ns); ok && ns.DeletionTimestamp == nil {
			found[p.Owner] = ns.Annotations[placement.AnnotationWorkspacePath]
		}
	}
	return found, nil
}

// eachInstance calls f for every instance in every workspace, live and on every shard.
func (r *reconciler) eachInstance(ctx context.Context, gvr schema.GroupVersionResource, f func(*unstructured.Unstructured)) error {
	shards, err := r.shards(ctx)
	if err != nil {
		return err
	}
	for _, shard := range shards {
		if err := shard.EachAsItsTenant(ctx, gvr, f); err != nil {
			return err
		}
	}
	return nil
}

// narrowing is a change of a schema that admits less than before. Between the look at all instances
// and the moment when no workspace has the old schema any more, a tenant could set what goes, and
// would lose it without a word. So nobody may write instances of the kind for these seconds.
type narrowing struct {
	// since is when writes were stopped.
	since time.Time
	// switched is when the export got the new schema; zero before.
	switched time.Time
}

// narrow goes one step further in narrowing the schema of a kind, if it is to be; done means that
// tenants may have all their rights to the kind.
func (r *reconciler) narrow(ctx context.Context, tmpl *sandbarv1alpha1.Template, p *plan, schemaName string) (wait time.Duration, done bool, err error) {
	n := r.narrowing(tmpl.Name)
	report := func() {
		setExported(tmpl, reasonNarrowing,
			"for some seconds nobody may create or change %s, so that no tenant sets what goes with the former schema", p.gvr.Resource)
	}
	if p.offered == nil && n.switched.IsZero() {
		r.endNarrowing(tmpl) // one that was begun has been taken back
		return 0, true, nil
	}
	changed, err := r.offers.SetRules(ctx, p.gvr.Resource, tenantRules(p.gvr.Resource, p.dataPlane, offer.AllButChange))
	if client.IgnoreNotFound(err) != nil {
		return 0, false, err
	}
	if changed || n.since.IsZero() {
		n.since = r.now()
	}
	if left := policySettles - r.now().Sub(n.since); left > 0 {
		report()
		return left, false, nil
	}
	if p.offered != nil {
		blocked, err := r.users(ctx, tmpl, p)
		if err != nil {
			return 0, false, err
		}
		if blocked != "" {
			setCondition(tmpl, sandbarv1alpha1.TemplateGraphAccepted, metav1.ConditionFalse, reasonIncompatible, incompatible, "see the change", blocked)
			return time.Millisecond, false, nil // check names the changes, and the narrowing is given up
		}
		if _, err := r.offers.SetEntry(ctx, p.gvr.GroupResource(), schemaName); err != nil {
			return 0, false, err
		}
		n.switched, tmpl.Status.SchemaName = r.now(), schemaName
	}
	widened, err := r.widened(ctx, tmpl)
	if err != nil || !widened {
		report()
		return lookAgain, false, err
	}
	r.endNarrowing(tmpl)
	return 0, true, nil
}

// giveUpNarrowing ends a narrowing whose Template is refused by now, or cannot be looked at, or whose
// process has ended: tenants get their rights back, and a later narrowing stops writes itself. If the
// export has the new schema already, they get them when their bindings have it too; wait is when to look
// for that again.
func (r *reconciler) giveUpNarrowing(ctx context.Context, tmpl *sandbarv1alpha1.Template) (wait time.Duration, err error) {
	widened, err := r.widened(ctx, tmpl)
	if err != nil || !widened {
		return lookAgain, err
	}
	r.endNarrowing(tmpl)
	if tmpl.Status.Resource == "" || tmpl.Status.DataPlane == nil {
		return 0, nil // it was never exported
	}
	_, err = r.offers.SetRules(ctx, tmpl.Status.Resource, tenantRules(tmpl.Status.Resource, tmpl.Status.DataPlane, offer.AllVerbs))
	return 0, client.IgnoreNotFound(err)
}

// endNarrowing forgets a narrowing, if there is one; the caller gives tenants their rights back.
func (r *reconciler) endNarrowing(tmpl *sandbarv1alpha1.Template) {
	r.mu.Lock()
	delete(r.narrowings, tmpl.Name)
	r.mu.Unlock()
	if c := meta.FindStatusCondition(tmpl.Status.Conditions, sandbarv1alpha1.TemplateExported); c != nil && c.Reason == reasonNarrowing {
		setExported(tmpl, reasonExported, "APIExport %s offers %s", r.offers.ExportName, tmpl.Status.SchemaName)
	}
}

// setExported says that tenants have the API, of the generation that the condition named before. It
// stays True while a schema is narrowed: the data plane serves no kind that is not exported.
func setExported(tmpl *sandbarv1alpha1.Template, reason, format string, args ...any) {
	generation := tmpl.Generation
	if before := meta.FindStatusCondition(tmpl.Status.Conditions, sandbarv1alpha1.TemplateExported); before != nil {
		generation = before.ObservedGeneration
	}
	meta.SetStatusCondition(&tmpl.Status.Conditions, metav1.Condition{
		Type: sandbarv1alpha1.TemplateExported, Status: metav1.ConditionTrue, Reason: reason,
		Message: fmt.Sprintf(format, args...), ObservedGeneration: generation,
	})
}

// usersLately is users, asked at most once per lookEvery for the same Template and schema: each
// answer costs a list of all instances.
func (r *reconciler) usersLately(ctx context.Context, tmpl *sandbarv1alpha1.Template, p *plan) (string, error) {
	r.mu.Lock()
	last := r.looks[tmpl.Name]
	r.mu.Unlock()
	same := last.generation == tmpl.Generation && last.annotations == len(tmpl.Annotations)
	if same && last.blocked != "" && r.now().Sub(last.at) < lookEvery {
		return last.blocked, nil
	}
	blocked, err := r.users(ctx, tmpl, p)
	if err != nil {
		return "", err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.looks[tmpl.Name] = look{at: r.now(), generation: tmpl.Generation, annotations: len(tmpl.Annotations), blocked: blocked}
	return blocked, nil
}

// look is what a look at all instances found.
type look struct {
	at          time.Time
	generation  int64
	annotations int
	blocked     string
}

// widened reports whether tenants may write again: the export still has the former schema, or every
// binding has the new one, or has had long enough to get it.
func (r *reconciler) widened(ctx context.Context, tmpl *sandbarv1alpha1.Template) (bool, error) {
	n := r.narrowing(tmpl.Name)
	if n.switched.IsZero() || r.now().Sub(n.switched) > bindingsSettle {
		return true, nil
	}
	shards, err := r.shards(ctx)
	if err != nil {
		return false, err
	}
	all := true
	for _, shard := range shards {
		if err := shard.Each(ctx, export.EveryWorkspace, export.APIBindings, func(binding *unstructured.Unstructured) {
			bound, _, _ := unstructured.NestedSlice(binding.Object, "status", "boundResources")
			for _, b := range bound {
				entry, _ := b.(map[string]any)
				name, _, _ := unstructured.NestedString(entry, "schema", "name")
				all = all && (entry["resource"] != tmpl.Status.Resource || name == tmpl.Status.SchemaName)
			}
		}); err != nil {
			return false, err
		}
	}
	return all, nil
}

func (r *reconciler) narrowing(template string) *narrowing {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.narrowings[template]
	if n == nil {
		n = &narrowing{}
		r.narrowings[template] = n
	}
	return n
}
