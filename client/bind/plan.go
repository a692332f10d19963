// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package bind

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/sandbar-dev/sandbar/client"
)

// Plan is what binding an export changes in a workspace.
type Plan struct {
	Export Export
	// Binding is the name of the APIBinding.
	Binding string
	// Exists is set if the workspace has the binding already.
	Exists bool
	// Grants are the permissions that the provider gets by [Plan.Apply] and does not have yet.
	Grants []Claim
	// Held are those that the binding grants already and that Sandbar uses.
	Held []Claim
	// Rejected are those of Sandbar's claims that the binding rejects. They stay rejected: somebody decided so.
	Rejected []Claim
	// Narrowed are accepted claims whose selector leaves objects out. kcp does not let a selector change.
	Narrowed []Claim
	// Beyond are permissions that the binding grants although Sandbar does not use them.
	Beyond []Claim

	cfg     *rest.Config
	objects dynamic.Interface
	found   *unstructured.Unstructured
	// patience is how long a refusal to list a kind counts as one of the moment.
	patience time.Duration
}

// rightsPatience is how long kcp's authorizer may take to learn of a new binding, after the API is served.
const rightsPatience = 10 * time.Second

// TakenError means that the workspace has an APIBinding of the name that leads to another export.
type TakenError struct {
	Binding string
	Other   Export
}

// Error implements error.
func (e *TakenError) Error() string {
	return fmt.Sprintf("the workspace has a binding %s already, and it leads to %s: delete it, or choose another name", e.Binding, e.Other)
}

// EndingError means that the binding is being deleted, with all objects of its kinds.
type EndingError struct{ Binding string }

// Error implements error.
func (e *EndingError) Error() string {
	return fmt.Sprintf("the binding %s is being deleted with all objects of its kinds: try again when it is gone", e.Binding)
}

// Look compares a workspace with an export. The binding is the one that leads to the export, under any name, and
// otherwise a new one called name, or as the export if name is empty. The caller needs the right to list apibindings.
func Look(ctx context.Context, workspace *rest.Config, export Export, name string) (*Plan, error) {
	cfg := client.WithoutRedirects(workspace)
	cfg.QPS = -1 // a wait has its own pace, and client-go's limiter would fail it shortly before its end
	objects, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("making a client for the workspace: %w", err)
	}
	list, err := objects.Resource(apiBindings).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing the workspace's APIBindings: %w", err)
	}
	p := &Plan{Export: export, Binding: cmp.Or(name, export.Name), cfg: cfg, objects: objects, patience: rightsPatience}
	var taken *TakenError
	for i := range list.Items {
		obj := &list.Items[i]
		b, err := readBinding(obj)
		if err != nil {
			return nil, fmt.Errorf("reading the APIBinding %s: %w", obj.GetName(), err)
		}
		var leads Export
		if to := b.Spec.Reference.Export; to != nil {
			leads = Export{Path: to.Path, Name: to.Name}
		}
		switch {
		case leads == export && (name == "" || name == obj.GetName()):
			if obj.GetDeletionTimestamp() != nil {
				return nil, &EndingError{obj.GetName()}
			}
			p.Exists, p.Binding, p.found, p.patience = true, obj.GetName(), obj, 0
			p.compare(b.Spec.PermissionClaims)
			return p, nil
		case obj.GetName() == p.Binding:
			taken = &TakenError{Binding: p.Binding, Other: leads}
		}
	}
	if taken != nil {
		return nil, taken
	}
	p.Grants = Claims()
	return p, nil
}

// compare sorts the claims of a binding by what they mean.
func (p *Plan) compare(given []givenClaim) {
	for _, want := range Claims() {
		at := slices.IndexFunc(given, func(g givenClaim) bool { return g.claim().is(want) })
		switch {
		case at < 0:
			p.Grants = append(p.Grants, want)
		case given[at].State == rejected:
			p.Rejected = append(p.Rejected, want)
		default:
			if lacks := want.without(given[at].claim()); len(lacks.Verbs) > 0 {
				p.Grants = append(p.Grants, lacks)
			} else {
				p.Held = append(p.Held, want)
			}
			if !given[at].Selector.MatchAll {
				p.Narrowed = append(p.Narrowed, want)
			}
		}
	}
	for _, g := range given {
		has := g.claim()
		for _, want := range Claims() {
			if want.is(has) {
				has = has.without(want)
			}
		}
		if has.isOptional() && !g.Selector.MatchAll {
			continue
		}
		if g.State == accepted && len(has.Verbs) > 0 {
			p.Beyond = append(p.Beyond, has)
		}
	}
}

// Done reports whether the workspace has the binding with all that it grants, so that Apply changes nothing.
func (p *Plan) Done() bool { return p.Exists && len(p.Grants) == 0 }

// Apply creates the binding, or extends the one that exists by the claims in Grants. It changes no claim that the plan does
// not name: it fails with a Conflict of apimachinery if the binding was changed since [Look].
func (p *Plan) Apply(ctx context.Context) error {
	switch {
	case p.Done():
		return nil
	case p.Exists:
		return p.extend(ctx)
	}
	claims := make([]any, 0, len(p.Grants))
	for _, c := range p.Grants {
		claims = append(claims, c.asObject())
	}
	binding := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": apiBindings.GroupVersion().String(), "kind": "APIBinding",
		"metadata": map[string]any{"name": p.Binding},
		"spec": map[string]any{
			"reference":        map[string]any{"export": map[string]any{"path": p.Export.Path, "name": p.Export.Name}},
			"permissionClaims": claims,
		},
	}}
	_, err := p.objects.Resource(apiBindings).Create(ctx, binding, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("creating the APIBinding %s: %w", p.Binding, err)
	}
	return nil
}

// extend adds what the binding lacks.
func (p *Plan) extend(ctx context.Context) error {
	changed := p.found.DeepCopy()
	list, _, err := unstructured.NestedSlice(changed.Object, "spec", "permissionClaims")
	if err != nil {
		return fmt.Errorf("reading the claims of the APIBinding %s: %w", p.Binding, err)
	}
	for _, c := range p.Grants {
		list = add(list, c)
	}
	if err := unstructured.SetNestedSlice(changed.Object, list, "spec", "permissionClaims"); err != nil {
		return fmt.Errorf("writing the claims of the APIBinding %s: %w", p.Binding, err)
	}
	if _, err := p.objects.Resource(apiBindings).Update(ctx, changed, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("extending the APIBinding %s: %w", p.Binding, err)
	}
	return nil
}

// add accepts a claim, as verbs of the entry for its resource if there is one.
func add(list []any, c Claim) []any {
	for i := range list {
		entry, ok := list[i].(map[string]any)
		if !ok {
			continue
		}
		text := func(field string) string { s, _, _ := unstructured.NestedString(entry, field); return s }
		if !c.is(Claim{Group: text("group"), Resource: text("resource"), IdentityHash: text("identityHash")}) {
			continue
		}
		verbs, _, _ := unstructured.NestedSlice(entry, "verbs")
		for _, v := range c.Verbs {
			verbs = append(verbs, v)
		}
		entry["verbs"] = verbs
		return list
	}
	return append(list, c.asObject())
}

// NoRight reports whether an error of Apply means that the caller may not bind the export, or that there is none: kcp
// gives one answer to both, so that nobody can search for workspaces.
func NoRight(err error) bool { return apierrors.IsForbidden(err) }

// Missing returns the claims of Sandbar that a binding of a name does not accept, those that it rejects included.
func Missing(ctx context.Context, workspace *rest.Config, name string) ([]Claim, error) {
	objects, err := dynamic.NewForConfig(client.WithoutRedirects(workspace))
	if err != nil {
		return nil, fmt.Errorf("making a client for the workspace: %w", err)
	}
	obj, err := objects.Resource(apiBindings).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading the APIBinding %s: %w", name, err)
	}
	b, err := readBinding(obj)
	if err != nil {
		return nil, fmt.Errorf("reading the APIBinding %s: %w", name, err)
	}
	p := &Plan{}
	p.compare(b.Spec.PermissionClaims)
	return append(p.Grants, p.Rejected...), nil
}
