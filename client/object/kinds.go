// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/client"
)

// Kind is a kind of objects that a workspace serves.
type Kind struct {
	// Resource is its resource, sandboxes.sandbar.dev for example.
	Resource schema.GroupVersionResource
	// Name is the kind's name as in a manifest, Sandbox for example.
	Name string
	// Singular and ShortNames are other words for it.
	Singular   string
	ShortNames []string
	// Namespaced reports whether its objects are in namespaces.
	Namespaced bool
	// Verbs are those of the Kubernetes API that it has, such as list and watch.
	Verbs []string
}

// GVK is the kind with its group and version.
func (k Kind) GVK() schema.GroupVersionKind { return k.Resource.GroupVersion().WithKind(k.Name) }

// String is the kind as messages name an object of it: sandbox.sandbar.dev.
func (k Kind) String() string {
	return schema.GroupResource{Group: k.Resource.Group, Resource: k.Singular}.String()
}

// Word is the kind as a person writes it: its resource, with the group if that is not Sandbar's own.
func (k Kind) Word() string {
	if k.Resource.Group == sandbarv1alpha1.GroupVersion.Group {
		return k.Resource.Resource
	}
	return k.Resource.GroupResource().String()
}

// is reports whether a word means the kind.
func (k Kind) is(word string) bool {
	return word == k.Resource.Resource || word == k.Singular || strings.EqualFold(word, k.Name) || slices.Contains(k.ShortNames, word)
}

// Kinds are those of a workspace, sorted by their resources.
type Kinds []Kind

// Named returns the kind that a word means: a resource, a singular, a short name or a kind's name.
func (k Kinds) Named(word string) (Kind, bool) {
	at := slices.IndexFunc(k, func(kind Kind) bool { return kind.is(word) })
	if at < 0 {
		return Kind{}, false
	}
	return k[at], true
}

// String lists the kinds with their short names, for messages.
func (k Kinds) String() string {
	var names []string
	for _, kind := range k {
		name := kind.Word()
		if len(kind.ShortNames) > 0 {
			name += " (" + strings.Join(kind.ShortNames, ", ") + ")"
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

// UnknownKindError means that a workspace has kinds, but not the one that is meant.
type UnknownKindError struct {
	// Word is what was asked for.
	Word string
	// Kinds are those that there are.
	Kinds Kinds
}

// Error implements error.
func (e *UnknownKindError) Error() string {
	return fmt.Sprintf("this workspace has no kind %q; it has %s", e.Word, e.Kinds)
}

// NotBoundError means that a workspace serves no kinds of a group: it has no APIBinding to a provider of them.
type NotBoundError struct{ Group string }

// Error implements error.
func (e *NotBoundError) Error() string {
	return "this workspace has not bound " + e.Group
}

// NoWorkspaceError means that the address leads to a workspace that there is not.
type NoWorkspaceError struct{ Workspace string }

// Error implements error.
func (e *NoWorkspaceError) Error() string { return "there is no workspace " + e.Workspace }

// Kinds returns the kinds that the workspace serves in Sandbar's group, and in the groups of other Templates as far
// as the caller may list the workspace's APIBindings. It fails with a [NotBoundError] if there are none.
func (c *Client) Kinds(ctx context.Context) (Kinds, error) {
	found, err := c.kindsOf(ctx, sandbarv1alpha1.GroupVersion)
	if err != nil {
		return nil, err
	}
	others, err := c.otherKinds(ctx)
	if err != nil {
		return nil, err
	}
	if found = append(found, others...); len(found) == 0 {
		return nil, &NotBoundError{Group: sandbarv1alpha1.GroupVersion.Group}
	}
	return found, nil
}

// Kind finds the kind that a word means: "sandbox", "sandboxes", "sbx", "Sandbox", "sandboxes.sandbar.dev" or
// "sandboxes.v1alpha1.sandbar.dev". It fails with an [UnknownKindError] or a [NotBoundError].
func (c *Client) Kind(ctx context.Context, word string) (Kind, error) {
	name, group, _ := strings.Cut(word, ".")
	if group != "" {
		return c.kindOfGroup(ctx, word, name, group)
	}
	found, err := c.kindsOf(ctx, sandbarv1alpha1.GroupVersion)
	if err != nil {
		return Kind{}, err
	}
	if kind, ok := found.Named(name); ok {
		return kind, nil
	}
	others, err := c.otherKinds(ctx)
	if err != nil {
		return Kind{}, err
	}
	if kind, ok := others.Named(name); ok {
		return kind, nil
	}
	if found = append(found, others...); len(found) == 0 {
		return Kind{}, &NotBoundError{Group: sandbarv1alpha1.GroupVersion.Group}
	}
	return Kind{}, &UnknownKindError{Word: word, Kinds: found}
}

// kindOfGroup finds a kind whose group is named, perhaps with its version before it.
func (c *Client) kindOfGroup(ctx context.Context, word, name, group string) (Kind, error) {
	var gv schema.GroupVersion
	if version, rest, ok := strings.Cut(group, "."); ok && isVersion(version) {
		gv = schema.GroupVersion{Group: rest, Version: version}
	} else if preferred, err := c.preferred(ctx, group); err != nil {
		return Kind{}, err
	} else if gv = preferred; gv.Empty() {
		return Kind{}, &NotBoundError{Group: group}
	}
	found, err := c.kindsOf(ctx, gv)
	if err != nil {
		return Kind{}, err
	}
	if len(found) == 0 {
		return Kind{}, &NotBoundError{Group: gv.Group}
	}
	if kind, ok := found.Named(name); ok {
		return kind, nil
	}
	return Kind{}, &UnknownKindError{Word: word, Kinds: found}
}

// preferred returns the version of a group that the workspace prefers; an empty one if it does not have the group.
func (c *Client) preferred(ctx context.Context, group string) (schema.GroupVersion, error) {
	if group == sandbarv1alpha1.GroupVersion.Group {
		return sandbarv1alpha1.GroupVersion, nil
	}
	var found metav1.APIGroup
	if served, err := c.discover(ctx, &found, "apis", group); !served || err != nil {
		return schema.GroupVersion{}, err
	}
	return schema.GroupVersion{Group: group, Version: found.PreferredVersion.Version}, nil
}

// otherKinds returns the kinds of a provider's Templates that are in other groups than Sandbar's. Without the
// right to list APIBindings there are none: a person can still name such a kind with its group.
func (c *Client) otherKinds(ctx context.Context) (Kinds, error) {
	offers, err := client.Offers(ctx, c.cfg)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, nil
	}
	var groups []string
	bound := map[schema.GroupResource]bool{}
	for _, o := range offers {
		for _, r := range o.Resources {
			bound[r] = true
			if r.Group != sandbarv1alpha1.GroupVersion.Group && !slices.Contains(groups, r.Group) {
				groups = append(groups, r.Group)
			}
		}
	}
	slices.Sort(groups)
	var found Kinds
	for _, group := range groups {
		gv, err := c.preferred(ctx, group)
		if err != nil {
			return nil, err
		}
		if gv.Empty() {
			continue
		}
		kinds, err := c.kindsOf(ctx, gv)
		if err != nil {
			return nil, err
		}
		found = append(found, slices.DeleteFunc(kinds, func(k Kind) bool { return !bound[k.Resource.GroupResource()] })...)
	}
	return found, nil
}

// kindsOf returns the kinds of a group and version, without their subresources; none if it is not served.
func (c *Client) kindsOf(ctx context.Context, gv schema.GroupVersion) (Kinds, error) {
	var list metav1.APIResourceList
	if served, err := c.discover(ctx, &list, "apis", gv.Group, gv.Version); !served || err != nil {
		return nil, err
	}
	var found Kinds
	for _, r := range list.APIResources {
		if strings.Contains(r.Name, "/") {
			continue
		}
		found = append(found, kindOf(gv, r))
	}
	slices.SortFunc(found, func(a, b Kind) int { return strings.Compare(a.Resource.Resource, b.Resource.Resource) })
	return found, nil
}

// discover reads a document that says which kinds there are, and reports whether it is there. It does without client-go's
// package discovery, which brings the OpenAPI libraries into every program that uses this one.
func (c *Client) discover(ctx context.Context, document any, path ...string) (served bool, err error) {
	result := c.raw.Get().AbsPath(path...).SetHeader("Accept", "application/json").Do(ctx)
	body, err := result.Raw()
	if err != nil {
		err = result.Error()
		if name := missingWorkspace(err); name != "" {
			return false, &NoWorkspaceError{Workspace: name}
		}
		if apierrors.IsNotFound(err) {
			return false, nil
		}
	} else {
		err = json.Unmarshal(body, document)
	}
	if err != nil {
		return false, fmt.Errorf("reading which kinds the workspace has: %w", err)
	}
	return true, nil
}

// missingWorkspace is the workspace that kcp says is not there; empty for other errors.
func missingWorkspace(err error) string {
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return ""
	}
	if d := status.Status().Details; d != nil && d.Group == "tenancy.kcp.io" && d.Kind == "workspaces" {
		return d.Name
	}
	return ""
}

func kindOf(gv schema.GroupVersion, r metav1.APIResource) Kind {
	k := Kind{
		Resource: gv.WithResource(r.Name), Name: r.Kind, Singular: r.SingularName,
		ShortNames: r.ShortNames, Namespaced: r.Namespaced, Verbs: r.Verbs,
	}
	if k.Singular == "" {
		k.Singular = strings.ToLower(r.Kind)
	}
	return k
}

// isVersion reports whether the first label of a group is a version: v1, v1alpha1, v2beta3.
func isVersion(s string) bool {
	return len(s) > 1 && s[0] == 'v' && '0' <= s[1] && s[1] <= '9'
}

// Namespaces returns the names of the workspace's namespaces, at most limit.
func (c *Client) Namespaces(ctx context.Context, limit int64) ([]string, error) {
	list, err := c.objects.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).List(ctx, metav1.ListOptions{Limit: limit})
	if err != nil {
		return nil, fmt.Errorf("listing namespaces: %w", err)
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].GetName())
	}
	return names, nil
}
